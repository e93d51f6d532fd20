# librabbitmq, for RabbitMQ.
SINK_amqp_PKGS := librabbitmq
SINK_amqp_DEV := librabbitmq-dev
