// An HTTP/1.1 server whose answers a test decides on, byte for byte.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "listener.h"

struct ssl_ctx_st;

namespace outbox::test
{

struct HttpRequest
{
    std::string method;
    std::string target;
    std::vector<std::pair<std::string, std::string>> headers; // names in lower case
    std::string body;
    int connection = 0; // its number
    int number = 0;     // on that connection

    // Empty: there is none.
    std::string header(const std::string &name) const;
    bool has_header(const std::string &name) const;
};

struct HttpReply
{
    std::vector<std::string> pieces; // sent one after the other, as they are
    int pause_ms = 0;                // before each
    bool close = false;              // afterwards

    static HttpReply status(int code, const std::string &body = "",
                            const std::string &headers = "");
    // Says nothing until the server ends or the client has gone.
    static HttpReply silence();
    bool silent = false;
};

// Files of an authority, and of a server and a client whose certificates it has signed; made by
// openssl at first use.
struct TlsFiles
{
    std::string ca;
    std::string server_cert; // for localhost and 127.0.0.1
    std::string server_key;
    std::string client_cert;
    std::string client_key;
};
const TlsFiles &tls_files();
// Files with the client's key, encrypted: as PKCS #8 has it, and older.
std::vector<std::string> encrypted_keys();

class HttpServer
{
public:
    using Handler = std::function<HttpReply(const HttpRequest &)>;
    struct Tls
    {
        bool on = false;
        bool wants_client = false;
    };

    explicit HttpServer(Handler handler);
    HttpServer(Handler handler, Tls tls, int port = 0);
    ~HttpServer();
    HttpServer(const HttpServer &) = delete;
    HttpServer &operator=(const HttpServer &) = delete;

    int port() const { return listener_.port(); }
    std::string url(const std::string &path = "/hook") const;
    int connections() const { return connections_; }
    // All requests so far.
    std::vector<HttpRequest> requests() const;
    std::size_t count() const;
    // Ends all connections, in the middle of whatever.
    void drop_all();

private:
    void accept_all();
    void serve(int client, int number);
    void talk(int client, int number, void *tls);

    const Handler handler_;
    const Tls tls_;
    ssl_ctx_st *context_ = nullptr;
    const Listener listener_;
    std::atomic<bool> ended_{false};
    std::atomic<int> connections_{0};
    mutable std::mutex mutex_;
    std::vector<HttpRequest> requests_;
    std::vector<int> clients_;
    std::vector<std::thread> threads_;
    std::thread accepting_;
};

} // namespace outbox::test
