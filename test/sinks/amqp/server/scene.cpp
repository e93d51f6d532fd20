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
    : exchange(unique_name("exchange")), queue(unique_name("queue")), client(shared_server().port())
{
    client.declare_bound(queue, exchange, type, queue_arguments);
}

} // namespace outbox::test
