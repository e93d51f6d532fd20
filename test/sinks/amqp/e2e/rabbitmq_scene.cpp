#include "rabbitmq_scene.h"

namespace outbox::test
{

RabbitMqServer &
rabbitmq()
{
    static RabbitMqServer server;
    server.start();
    return server;
}

} // namespace outbox::test
