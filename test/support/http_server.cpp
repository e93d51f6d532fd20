#include "http_server.h"

#include <algorithm>
#include <cctype>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>

#include <openssl/ssl.h>
#include <poll.h>

namespace outbox::test
{

namespace
{

constexpr int kLookMs = 20;

// A connection, with TLS or without. Gives up when the server ends.
class Stream
{
public:
    Stream(int fd, SSL *ssl, const std::atomic<bool> &ended) : fd_(fd), ssl_(ssl), ended_(ended) {}

    // False: the client has gone, or the server ends.
    bool receive(std::string &bytes)
    {
        char buffer[16384];
        if (ssl_ == nullptr || SSL_pending(ssl_) == 0)
            if (!wait())
                return false;
        const auto count = ssl_ != nullptr ? SSL_read(ssl_, buffer, sizeof buffer)
                                           : ::recv(fd_, buffer, sizeof buffer, 0);
        if (count <= 0)
            return false;
        bytes.append(buffer, static_cast<size_t>(count));
        return true;
    }
    bool send(const std::string &bytes)
    {
        size_t sent = 0;
        while (sent < bytes.size() && !ended_)
        {
            const auto count =
                ssl_ != nullptr
                    ? SSL_write(ssl_, bytes.data() + sent, static_cast<int>(bytes.size() - sent))
                    : ::send(fd_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
            if (count <= 0)
                return false;
            sent += static_cast<size_t>(count);
        }
        return !ended_;
    }
    // Until there is something to read, or it has ended.
    bool wait() const
    {
        pollfd look = {fd_, POLLIN, 0};
        while (!ended_)
            if (poll(&look, 1, kLookMs) > 0)
                return true;
        return false;
    }

private:
    int fd_;
    SSL *ssl_;
    const std::atomic<bool> &ended_;
};

std::string
lower(std::string text)
{
    std::transform(text.begin(), text.end(), text.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return text;
}

// Takes one request off the front of `bytes`, reading more as needed.
bool
read_request(Stream &stream, std::string &bytes, HttpRequest &request)
{
    size_t end = 0;
    while ((end = bytes.find("\r\n\r\n")) == std::string::npos)
        if (!stream.receive(bytes))
            return false;
    request = HttpRequest();
    const std::string head = bytes.substr(0, end + 2);
    const size_t line = head.find("\r\n");
    const size_t space = head.find(' ');
    request.method = head.substr(0, space);
    request.target = head.substr(space + 1, head.find(' ', space + 1) - space - 1);
    size_t length = 0;
    for (size_t at = line + 2; at < head.size();)
    {
        const size_t next = head.find("\r\n", at);
        const size_t colon = head.find(':', at);
        std::string value = head.substr(colon + 1, next - colon - 1);
        value.erase(0, value.find_first_not_of(' '));
        request.headers.emplace_back(lower(head.substr(at, colon - at)), value);
        if (request.headers.back().first == "content-length")
            length = std::strtoul(value.c_str(), nullptr, 10);
        at = next + 2;
    }
    while (bytes.size() < end + 4 + length)
        if (!stream.receive(bytes))
            return false;
    request.body = bytes.substr(end + 4, length);
    bytes.erase(0, end + 4 + length);
    return true;
}

// A directory that others may read, as the server's user does; removed at the end.
struct TlsDirectory
{
    TlsDirectory()
    {
        char name[] = "/tmp/outbox-tls.XXXXXX";
        if (mkdtemp(name) == nullptr)
            throw std::runtime_error("no directory for certificates");
        path = name;
        const std::string command = "cd " + path + " && (" + kScript + ") >log 2>&1";
        if (std::system(command.c_str()) != 0)
            throw std::runtime_error("openssl made no certificates, see " + path + "/log");
    }
    ~TlsDirectory()
    {
        std::error_code ignored;
        std::filesystem::remove_all(path, ignored);
    }

    static constexpr const char *kScript = R"(
chmod 755 . &&
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=outbox-test-ca -keyout ca.key \
  -out ca.crt &&
for who in server client; do
  openssl req -newkey rsa:2048 -nodes -subj /CN=$who -keyout $who.key -out $who.csr &&
  echo subjectAltName=DNS:localhost,DNS:hook.test,IP:127.0.0.1 >$who.ext &&
  openssl x509 -req -days 2 -in $who.csr -CA ca.crt -CAkey ca.key -CAcreateserial \
    -extfile $who.ext -out $who.crt || exit 1
done
chmod 644 *.crt *.key)";
    std::string path;
};

SSL_CTX *
make_context(bool wants_client)
{
    const TlsFiles &files = tls_files();
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    if (context == nullptr ||
        SSL_CTX_use_certificate_chain_file(context, files.server_cert.c_str()) != 1 ||
        SSL_CTX_use_PrivateKey_file(context, files.server_key.c_str(), SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_load_verify_locations(context, files.ca.c_str(), nullptr) != 1)
        throw std::runtime_error("no TLS for the server");
    if (wants_client)
        SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
    return context;
}

} // namespace

const TlsFiles &
tls_files()
{
    static const TlsDirectory directory;
    static const std::string &dir = directory.path;
    static const TlsFiles files = {dir + "/ca.crt", dir + "/server.crt", dir + "/server.key",
                                   dir + "/client.crt", dir + "/client.key"};
    return files;
}

std::vector<std::string>
encrypted_keys()
{
    const std::string &key = tls_files().client_key;
    const auto make = [&](const std::string &name, const std::string &options)
    {
        std::string path = key + "." + name;
        const std::string command = "openssl rsa " + options + " -aes256 -passout pass:x -in " +
                                    key + " -out " + path + " 2>/dev/null && chmod 644 " + path;
        if (std::system(command.c_str()) != 0) // NOLINT(cert-env33-c)
            throw std::runtime_error("openssl encrypts no key");
        return path;
    };
    static const std::vector<std::string> files = {make("pkcs8", ""),
                                                   make("traditional", "-traditional")};
    return files;
}

std::string
HttpRequest::header(const std::string &name) const
{
    for (const auto &[known, value] : headers)
        if (known == name)
            return value;
    return "";
}

bool
HttpRequest::has_header(const std::string &name) const
{
    return std::any_of(headers.begin(), headers.end(),
                       [&](const auto &header) { return header.first == name; });
}

HttpReply
HttpReply::status(int code, const std::string &body, const std::string &headers)
{
    HttpReply reply;
    reply.pieces = {"HTTP/1.1 " + std::to_string(code) + " X\r\ncontent-length: " +
                    std::to_string(body.size()) + "\r\n" + headers + "\r\n" + body};
    return reply;
}

HttpReply
HttpReply::silence()
{
    HttpReply reply;
    reply.silent = true;
    return reply;
}

HttpServer::HttpServer(Handler handler) : HttpServer(std::move(handler), Tls()) {}

HttpServer::HttpServer(Handler handler, Tls tls, int port)
    : handler_(std::move(handler)), tls_(tls), listener_(port)
{
    (void) std::signal(SIGPIPE, SIG_IGN); // OpenSSL writes without asking for no signal
    if (tls_.on)
        context_ = make_context(tls_.wants_client);
    accepting_ = std::thread([this] { accept_all(); });
}

HttpServer::~HttpServer()
{
    ended_ = true;
    listener_.end();
    accepting_.join();
    drop_all();
    for (std::thread &thread : threads_)
        thread.join();
    for (const int client : clients_)
        (void) ::close(client);
    SSL_CTX_free(context_);
}

std::string
HttpServer::url(const std::string &path) const
{
    return (tls_.on ? "https://localhost:" : "http://127.0.0.1:") + std::to_string(port()) + path;
}

std::vector<HttpRequest>
HttpServer::requests() const
{
    const std::lock_guard<std::mutex> lock(mutex_);
    return requests_;
}

std::size_t
HttpServer::count() const
{
    const std::lock_guard<std::mutex> lock(mutex_);
    return requests_.size();
}

void
HttpServer::drop_all()
{
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const int client : clients_)
        (void) ::shutdown(client, SHUT_RDWR);
}

void
HttpServer::accept_all()
{
    while (!ended_)
    {
        const int client = listener_.accept();
        if (client < 0)
            continue;
        const std::lock_guard<std::mutex> lock(mutex_);
        const int number = connections_++;
        clients_.push_back(client);
        threads_.emplace_back([this, client, number] { serve(client, number); });
    }
}

void
HttpServer::serve(int client, int number)
{
    if (!tls_.on)
        talk(client, number, nullptr);
    else
    {
        SSL *ssl = SSL_new(context_);
        (void) SSL_set_fd(ssl, client);
        if (SSL_accept(ssl) == 1)
            talk(client, number, ssl);
        SSL_free(ssl);
    }
    (void) ::shutdown(client, SHUT_RDWR);
}

void
HttpServer::talk(int client, int number, void *tls)
{
    Stream stream(client, static_cast<SSL *>(tls), ended_);
    std::string bytes;
    HttpRequest request;
    for (int i = 0; read_request(stream, bytes, request); i++)
    {
        request.connection = number;
        request.number = i;
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            requests_.push_back(request);
        }
        const HttpReply reply = handler_(request);
        if (reply.silent)
        {
            (void) stream.wait();
            return;
        }
        for (const std::string &piece : reply.pieces)
        {
            if (reply.pause_ms > 0)
                std::this_thread::sleep_for(std::chrono::milliseconds(reply.pause_ms));
            if (!stream.send(piece))
                return;
        }
        if (reply.close)
            return;
    }
}

} // namespace outbox::test
