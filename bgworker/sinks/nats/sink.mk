SINK_nats_PKGS := libnats
SINK_nats_DEV := libnats-dev
