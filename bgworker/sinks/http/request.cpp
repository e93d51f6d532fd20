#include "request.h"

#include "message.h"

#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <new>

namespace outbox::http
{

namespace
{

constexpr long kConnectMs = 10000;
// Behind load balancers idle connections vanish without a word after a minute or more.
constexpr long kIdleSeconds = 50;
// What is received is small.
constexpr long kBuffer = 4096;
constexpr long kUploadBuffer = 16384;

bool
begins_with(std::string_view line, std::string_view name)
{
    return line.size() >= name.size() &&
           std::equal(name.begin(), name.end(), line.begin(),
                      [](char a, char b)
                      { return a == (b >= 'A' && b <= 'Z' ? static_cast<char>(b + 32) : b); });
}

// What kept the connection from being there.
bool
is_unreachable(CURLcode code)
{
    switch (code)
    {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_SSL_ENGINE_NOTFOUND:
    case CURLE_SSL_CLIENTCERT:
    case CURLE_OUT_OF_MEMORY:
    case CURLE_FAILED_INIT:
        return true;
    default:
        return false;
    }
}

const char *
name_of(CURLcode code)
{
    switch (code)
    {
    case CURLE_COULDNT_RESOLVE_HOST:
        return "RESOLVE";
    case CURLE_COULDNT_CONNECT:
        return "CONNECT";
    case CURLE_OPERATION_TIMEDOUT:
        return "TIMEOUT";
    case CURLE_GOT_NOTHING:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_PARTIAL_FILE:
        return "CLOSED";
    case CURLE_OUT_OF_MEMORY:
    case CURLE_FAILED_INIT:
        return "NO_MEMORY";
    default:
        return is_unreachable(code) ? "TLS" : "PROTOCOL";
    }
}

curl_blob
blob_of(const std::string &text)
{
    return {const_cast<char *>(text.data()), text.size(), CURL_BLOB_NOCOPY};
}

template <typename T>
bool
set(CURL *easy, CURLoption option, T value)
{
    const CURLcode code = curl_easy_setopt(easy, option, value);
    if (code == CURLE_OUT_OF_MEMORY)
        throw std::bad_alloc();
    return code == CURLE_OK;
}

} // namespace

bool
may_reuse_handles() noexcept
{
    return curl_version_info(CURLVERSION_NOW)->version_num >= 0x080101;
}

// Only to the endpoint itself, and by no other way than the options say.
bool
Request::set_connection(curl_slist *addresses)
{
    CURL *easy = easy_.get();
    bool ok =
        set(easy, CURLOPT_URL, setup_.options.url.c_str()) &&
        set(easy, CURLOPT_PROTOCOLS_STR, "http,https") && set(easy, CURLOPT_FOLLOWLOCATION, 0L) &&
        set(easy, CURLOPT_PROXY, "") && set(easy, CURLOPT_NOPROXY, "*") &&
        set(easy, CURLOPT_NETRC, static_cast<long>(CURL_NETRC_IGNORED)) &&
        set(easy, CURLOPT_NOSIGNAL, 1L) && set(easy, CURLOPT_RESOLVE, addresses) &&
        set(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket) &&
        set(easy, CURLOPT_OPENSOCKETDATA, this) && set(easy, CURLOPT_TCP_KEEPALIVE, 1L) &&
        set(easy, CURLOPT_MAXAGE_CONN, kIdleSeconds) && set(easy, CURLOPT_BUFFERSIZE, kBuffer) &&
        set(easy, CURLOPT_UPLOAD_BUFFERSIZE, kUploadBuffer) &&
        set(easy, CURLOPT_TIMEOUT_MS, static_cast<long>(setup_.options.timeout_ms)) &&
        set(easy, CURLOPT_CONNECTTIMEOUT_MS,
            std::min(static_cast<long>(setup_.options.timeout_ms), kConnectMs));
    if (!setup_.endpoint.tls)
        return ok && set(easy, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
    ok = ok && set(easy, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_2TLS)) &&
         set(easy, CURLOPT_PIPEWAIT, 1L) && set(easy, CURLOPT_SSL_VERIFYPEER, 1L) &&
         set(easy, CURLOPT_SSL_VERIFYHOST, 2L) &&
         set(easy, CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2)) &&
         // With a directory of authorities libcurl would read them all for each connection.
         set(easy, CURLOPT_CAPATH, static_cast<char *>(nullptr));
    curl_blob ca = blob_of(setup_.ca);
    curl_blob cert = blob_of(setup_.cert);
    curl_blob key = blob_of(setup_.key);
    if (ca.len > 0)
        ok = ok && set(easy, CURLOPT_CAINFO_BLOB, &ca);
    if (cert.len > 0)
        ok = ok && set(easy, CURLOPT_SSLCERT_BLOB, &cert) && set(easy, CURLOPT_SSLKEY_BLOB, &key);
    return ok;
}

bool
Request::add_header(const std::string &line)
{
    curl_slist *longer = curl_slist_append(headers_.get(), line.c_str());
    if (longer == nullptr)
        throw std::bad_alloc();
    (void) headers_.release();
    headers_.reset(longer);
    return true;
}

bool
Request::add_headers(const Message &message, std::int64_t timestamp)
{
    headers_.reset();
    for (const auto &[name, value] : setup_.headers)
        add_header(name + ": " + value);
    for (const std::string &line : message.headers)
        add_header(line);
    add_header("webhook-id: " + message.id);
    add_header("webhook-timestamp: " + std::to_string(timestamp));
    std::string signature;
    if (!sign(setup_.keys, message.id, timestamp, message.body, signature))
        return false;
    if (!signature.empty())
        add_header("webhook-signature: " + signature);
    // libcurl would wait for leave to send a large body.
    return add_header("Expect:");
}

bool
Request::prepare(const Message &message, curl_slist *addresses, std::int64_t timestamp)
{
    reset();
    if (!easy_)
        easy_.reset(curl_easy_init());
    if (!easy_)
        return false;
    CURL *easy = easy_.get();
    return add_headers(message, timestamp) && set_connection(addresses) &&
           set(easy, CURLOPT_PRIVATE, this) && set(easy, CURLOPT_ERRORBUFFER, error_) &&
           set(easy, CURLOPT_USERAGENT, setup_.user_agent.c_str()) &&
           set(easy, CURLOPT_HTTPHEADER, headers_.get()) && set(easy, CURLOPT_POST, 1L) &&
           set(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(message.body.size())) &&
           set(easy, CURLOPT_POSTFIELDS, message.body.c_str()) &&
           set(easy, CURLOPT_HEADERFUNCTION, take_header) && set(easy, CURLOPT_HEADERDATA, this) &&
           set(easy, CURLOPT_WRITEFUNCTION, take_body) && set(easy, CURLOPT_WRITEDATA, this);
}

void
Request::reset() noexcept
{
    static const bool reuse = may_reuse_handles();
    if (!reuse)
        easy_.reset();
    headers_.reset();
    error_[0] = '\0';
    body_.clear();
    retry_after_.clear();
    denied_.clear();
    status_ = 0;
    header_bytes_ = 0;
    body_bytes_ = 0;
}

std::size_t
Request::take_header(char *data, std::size_t size, std::size_t count, void *self)
{
    auto &request = *static_cast<Request *>(self);
    const std::string_view line(data, size * count);
    request.header_bytes_ += line.size();
    if (request.header_bytes_ > kMostHeaderBytes)
        return 0;
    constexpr std::string_view kRetryAfter = "retry-after:";
    try
    {
        if (begins_with(line, "http/"))
        {
            request.retry_after_.clear(); // a new answer, behind one of the kind 1xx
            request.status_ = status_of(line);
        }
        else if (begins_with(line, kRetryAfter))
            request.retry_after_ = clean_text(line.substr(kRetryAfter.size()), 64);
    }
    catch (const std::bad_alloc &)
    {
        return 0;
    }
    return line.size();
}

std::size_t
Request::take_body(char *data, std::size_t size, std::size_t count, void *self)
{
    auto &request = *static_cast<Request *>(self);
    const std::size_t bytes = size * count;
    const std::size_t shown = std::min(bytes, kShownBytes - request.body_.size());
    request.body_bytes_ += bytes;
    try
    {
        request.body_.append(data, shown);
    }
    catch (const std::bad_alloc &)
    {
        return 0;
    }
    return request.body_bytes_ > kMostBodyBytes ? 0 : bytes;
}

// The only place where the address is known that is really connected to: a name may have another
// one by then than when it was looked up.
curl_socket_t
Request::open_socket(void *self, curlsocktype purpose, curl_sockaddr *address)
{
    auto &request = *static_cast<Request *>(self);
    if (purpose != CURLSOCKTYPE_IPCXN || request.setup_.denied.contain(address->addr))
    {
        try
        {
            request.denied_ = address_text(address->addr);
        }
        catch (const std::bad_alloc &)
        {
        }
        return CURL_SOCKET_BAD;
    }
    return ::socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

void
Request::describe(Answer &answer, const char *name, const std::string &text) const
{
    std::string masked = text;
    setup_.secrets.mask(masked);
    set_failure(answer.failure, FailureClass::retriable, name, "%s", masked.c_str());
    answer.failure.code = answer.status;
    answer.failure.possibly_persisted = answer.maybe_arrived;
}

Answer
Request::answered(int status)
{
    Answer answer;
    answer.status = status;
    if (!retry_after_.empty())
    {
        std::int64_t seconds = retry_after_seconds(retry_after_);
        const std::time_t date = seconds < 0 ? curl_getdate(retry_after_.c_str(), nullptr) : -1;
        if (date >= 0)
            seconds = std::max<std::int64_t>(date - std::time(nullptr), 0);
        answer.retry_after_ms = seconds < 0 ? -1 : seconds * 1000;
    }
    answer.outcome = outcome_of(status, answer.retry_after_ms >= 0);
    if (answer.outcome == Outcome::delivered)
        return answer;
    const std::string code = std::to_string(status);
    const char *reason = reason_of(status);
    std::string text = setup_.endpoint.shown + " answered " + code;
    if (reason[0] != '\0')
        text.append(" ").append(reason);
    const std::string body = clean_text(body_, kShownBytes);
    if (!body.empty())
        text.append(": ").append(body);
    describe(answer, ("HTTP_" + code).c_str(), text);
    if (answer.outcome == Outcome::refused && status < 400)
        (void) std::snprintf(
            answer.failure.hint, sizeof answer.failure.hint, "%s",
            "Redirects are not followed: the option url must be the last address.");
    answer.failure.too_large = status == 413;
    return answer;
}

Answer
Request::failed(CURLcode code)
{
    Answer answer;
    curl_off_t sending = 0; // since when; 0: it was not reached
    (void) curl_easy_getinfo(easy_.get(), CURLINFO_PRETRANSFER_TIME_T, &sending);
    const bool no_time = code == CURLE_OPERATION_TIMEDOUT && sending == 0;
    answer.outcome = is_unreachable(code) || no_time ? Outcome::unreachable : Outcome::trouble;
    answer.maybe_arrived = answer.outcome == Outcome::trouble;
    if (!denied_.empty() && code == CURLE_COULDNT_CONNECT)
    {
        describe(answer, "ADDRESS_DENIED",
                 setup_.endpoint.shown + " leads to " + denied_ +
                     ", which outbox.webhook_deny_networks forbids");
        return answer;
    }
    if (header_bytes_ > kMostHeaderBytes)
    {
        describe(answer, "PROTOCOL", setup_.endpoint.shown + ": the answer has too many headers");
        return answer;
    }
    const std::string reason =
        clean_text(error_[0] != '\0' ? error_ : curl_easy_strerror(code), CURL_ERROR_SIZE);
    describe(answer, name_of(code), setup_.endpoint.shown + ": " + reason);
    return answer;
}

Answer
Request::finish(CURLcode code)
{
    long status = 0;
    (void) curl_easy_getinfo(easy_.get(), CURLINFO_RESPONSE_CODE, &status);
    // What is too long is not read to its end: the answer was there.
    const bool cut = code == CURLE_WRITE_ERROR && body_bytes_ > kMostBodyBytes;
    if ((code == CURLE_OK || cut) && status >= 200 && status == status_)
        return answered(static_cast<int>(status));
    return failed(code == CURLE_OK ? CURLE_WEIRD_SERVER_REPLY : code);
}

} // namespace outbox::http
