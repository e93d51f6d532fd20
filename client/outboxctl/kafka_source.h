// Where Kafka is and how to log in there: from the command line, and from the database's settings.
#pragma once

#include "database.h"
#include "options.h"

#include "extension/core/secrets.h"
#include "extension/core/kafka_config.h"

#include <map>
#include <string>
#include <vector>

namespace outbox::ctl
{

// The settings outbox.* that this role may see, by their names.
std::map<std::string, std::string> outbox_settings(Database &database);

struct KafkaSource
{
    std::string bootstrap;
    std::vector<Property> properties; // a later one wins
    Secrets secrets;                  // values that must not be shown
    bool preloaded = true;          // false: a session knows the settings once it loads the library
    std::vector<std::string> notes; // what could not be taken into account, as sentences

    // The text without secrets.
    std::string masked(const std::string &text) const;
};

// Puts them together; the database may be left out when the options name the brokers. Throws Error
// when there are no brokers, or a file or property cannot be read.
KafkaSource find_kafka(const KafkaOptions &options, Database *database);

} // namespace outbox::ctl
