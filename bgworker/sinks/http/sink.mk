SINK_http_PKGS = libcurl libcrypto
SINK_http_DEV = libcurl4-openssl-dev libssl-dev
SINK_http_LIBS = -lcurl -lcrypto
