// Turns Settings into librdkafka's configuration.
#pragma once

#include "failure.h"
#include "extension/core/secrets.h"
#include "settings.h"

#include <librdkafka/rdkafka.h>

#include <memory>

namespace outbox::kafka
{

struct ConfigDeleter
{
    void operator()(rd_kafka_conf_t *config) const noexcept { rd_kafka_conf_destroy(config); }
};
using ClientConfig = std::unique_ptr<rd_kafka_conf_t, ConfigDeleter>;

// Returns the configuration and adds its secrets to `secrets`; or returns nothing and says in
// `why` which property is at fault, naming its value unless that is secret or from a file. May
// throw std::bad_alloc.
ClientConfig make_client_config(const Settings &settings, Secrets &secrets, Failure &why);

} // namespace outbox::kafka
