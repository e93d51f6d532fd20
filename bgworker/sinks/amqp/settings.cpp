#include "settings.h"

#include <tuple>

namespace outbox::amqp
{

namespace
{

auto
all_of(const Settings &settings)
{
    return std::tie(settings.host, settings.port, settings.vhost, settings.username,
                    settings.password, settings.password_path, settings.password_uri, settings.tls,
                    settings.name, settings.exchange, settings.routing_key_text, settings.mandatory,
                    settings.heartbeat_s, settings.connect_timeout_ms, settings.confirm_timeout_ms,
                    settings.window, settings.backoff_initial_ms, settings.backoff_max_ms,
                    settings.max_messages, settings.max_bytes);
}

} // namespace

bool
Settings::operator==(const Settings &other) const
{
    return all_of(*this) == all_of(other);
}

} // namespace outbox::amqp
