SINK_http_PKGS := libcurl libcrypto
SINK_http_DEV := libcurl4-openssl-dev libssl-dev
# What pkg-config says of libcurl begins with directories of its own build.
SINK_http_LIBS := -lcurl -lcrypto
