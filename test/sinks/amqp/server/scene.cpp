#include "scene.h"

#include "support/workspace.h"

namespace outbox::test
{

namespace
{

std::unique_ptr<RabbitMqServer> server;

} // namespace

RabbitMqServer &
shared_server()
{
    if (!server)
        server = std::make_unique<RabbitMqServer>("max_message_size = 2000000\n", true);
    return *server;
}

void
stop_shared_server()
{
    server.reset();
}

Scene::Scene(const AmqpClient::Arguments &queue_arguments, const std::string &type)
    : exchange(unique_name("exchange")), queue(unique_name("queue")),
      client(shared_server().port()), queue_arguments_(queue_arguments), type_(type)
{
    declare();
}

void
Scene::declare() const
{
    AmqpClient connected(shared_server().port());
    connected.declare_exchange(exchange, type_);
    connected.declare_queue(queue, queue_arguments_);
    connected.bind(queue, exchange);
}

} // namespace outbox::test
