// One RabbitMQ for all tests of this program, as its start takes long.
#pragma once

#include "sinks/amqp/driver.h"

#include "sinks/amqp/support/amqp_client.h"
#include "sinks/amqp/support/rabbitmq_server.h"

namespace outbox::test
{

RabbitMqServer &shared_server();
void stop_shared_server();

// An exchange and a queue that gets all of it, with names of their own.
struct Scene
{
    explicit Scene(const AmqpClient::Arguments &queue_arguments = {},
                   const std::string &type = "topic");

    amqp::Settings settings() const { return settings_for(shared_server().port(), exchange); }

    const std::string exchange;
    const std::string queue;
    AmqpClient client;
};

} // namespace outbox::test
