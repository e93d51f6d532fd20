// From options and files to a connection's settings.
#pragma once

#include "bgworker/sinks/module.h"

#include "options.h"
#include "settings.h"

namespace outbox::amqp
{

// Reads what the options name. False and the reason, which shows no secret. May throw
// std::bad_alloc.
bool read_settings(const SinkSettings &given, Settings &settings, Failure &why);

// The password may have been changed, here and in RabbitMQ. What cannot be read, as it is being
// written, or names another user, leaves the settings as they are. May throw std::bad_alloc.
void read_password_again(Settings &settings);

} // namespace outbox::amqp
