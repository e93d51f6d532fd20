# Kafka is what outbox is made for: nothing is built without its library, and pkg-config need not be there.
SINK_kafka_NEEDED := yes
SINK_kafka_PKGS := rdkafka
SINK_kafka_DEV := librdkafka-dev
SINK_kafka_LIBS := -lrdkafka
SINK_kafka_CPPFLAGS :=
