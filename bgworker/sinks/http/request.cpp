#include "request.h"

#include "message.h"
#include "station.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

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

Request::Request(Station &station, Wakes &wakes) noexcept
    : setup_(station.setup), wakes_(wakes), signer_(station.signer)
{
}

// Only to the endpoint itself, and by no other way than the options say.
bool
Request::set_connection(CURL *easy)
{
    return set(easy, CURLOPT_URL, setup_.options.url.c_str()) &&
           set(easy, CURLOPT_PROTOCOLS_STR, "http,https") &&
           set(easy, CURLOPT_FOLLOWLOCATION, 0L) && set(easy, CURLOPT_PROXY, "") &&
           set(easy, CURLOPT_NOPROXY, "*") &&
           set(easy, CURLOPT_NETRC, static_cast<long>(CURL_NETRC_IGNORED)) &&
           set(easy, CURLOPT_NOSIGNAL, 1L) && set(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket) &&
           set(easy, CURLOPT_OPENSOCKETDATA, this) &&
           set(easy, CURLOPT_CLOSESOCKETFUNCTION, close_socket) &&
           set(easy, CURLOPT_CLOSESOCKETDATA, &wakes_) && set(easy, CURLOPT_TCP_KEEPALIVE, 1L) &&
           set(easy, CURLOPT_MAXAGE_CONN, kIdleSeconds) && set(easy, CURLOPT_BUFFERSIZE, kBuffer) &&
           set(easy, CURLOPT_UPLOAD_BUFFERSIZE, kUploadBuffer) &&
           set(easy, CURLOPT_TIMEOUT_MS, static_cast<long>(setup_.options.timeout_ms)) &&
           set(easy, CURLOPT_CONNECTTIMEOUT_MS,
               std::min(static_cast<long>(setup_.options.timeout_ms), kConnectMs)) &&
           (setup_.endpoint.tls
                ? set_tls(easy)
                : set(easy, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1)));
}

bool
Request::set_tls(CURL *easy)
{
    bool ok = set(easy, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_2TLS)) &&
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
Request::open()
{
    if (easy_)
        return true;
    Easy made(curl_easy_init());
    CURL *easy = made.get();
    if (easy == nullptr || !set_connection(easy) || !set(easy, CURLOPT_PRIVATE, this) ||
        !set(easy, CURLOPT_ERRORBUFFER, error_) ||
        !set(easy, CURLOPT_USERAGENT, setup_.user_agent.c_str()) || !set(easy, CURLOPT_POST, 1L) ||
        !set(easy, CURLOPT_HEADERFUNCTION, take_header) || !set(easy, CURLOPT_HEADERDATA, this) ||
        !set(easy, CURLOPT_WRITEFUNCTION, take_body) || !set(easy, CURLOPT_WRITEDATA, this))
        return false;
    easy_ = std::move(made);
    return true;
}

bool
Request::add_headers(const Message &message, std::int64_t timestamp)
{
    const std::string time = std::to_string(timestamp);
    headers_.clear();
    for (const auto &[name, value] : setup_.headers)
        headers_.append(name).append(": ").append(value).append(1, '\0');
    headers_.append(message.headers);
    headers_.append("webhook-id: ").append(message.id).append(1, '\0');
    headers_.append("webhook-timestamp: ").append(time).append(1, '\0');
    if (!setup_.keys.empty())
    {
        headers_.append("webhook-signature: ");
        if (!signer_.append(message.id, time, message.body, headers_))
            return false;
        headers_.append(1, '\0');
    }
    // libcurl would wait for leave to send a large body.
    headers_.append("Expect:").append(1, '\0');
    return true;
}

// As libcurl wants them; curl_slist_append() would take two pieces of memory for each.
curl_slist *
Request::list_headers()
{
    list_.clear();
    for (std::size_t at = 0; at < headers_.size(); at = headers_.find('\0', at) + 1)
        list_.push_back({&headers_[at], nullptr});
    for (std::size_t i = 1; i < list_.size(); i++)
        list_[i - 1].next = &list_[i];
    return list_.data();
}

bool
Request::prepare(const Message &message, curl_slist *addresses, std::int64_t timestamp)
{
    if (!open() || !add_headers(message, timestamp))
        return false;
    CURL *easy = easy_.get();
    return set(easy, CURLOPT_RESOLVE, addresses) && set(easy, CURLOPT_HTTPHEADER, list_headers()) &&
           set(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(message.body.size())) &&
           set(easy, CURLOPT_POSTFIELDS, message.body.c_str());
}

void
Request::reset() noexcept
{
    static const bool reuse = may_reuse_handles();
    if (!reuse)
        easy_.reset();
    error_[0] = '\0';
    body_.clear();
    retry_after_.clear();
    denied_.clear();
    fault_ = nullptr;
    has_headers_ = false;
    status_ = 0;
    header_bytes_ = 0;
    body_bytes_ = 0;
}

void
Request::note_cut() noexcept
{
    fault_ = fault_ != nullptr ? fault_ : "it sends without an end what is no answer";
}

// Why the answer is not read any further; null: it is. libcurl undoes every coding of a transfer
// that it knows, one within the other, though none was asked for: a few bytes become gigabytes
// then, and windows of 128 MB.
const char *
Request::fault_of(std::string_view line) const noexcept
{
    constexpr std::string_view kCoding = "transfer-encoding:";
    if (header_bytes_ > kMostHeaderBytes)
        return "the answer has too many headers";
    if (!begins_with(line, kCoding))
        return nullptr;
    constexpr std::string_view kSpace = " \t\r\n";
    line.remove_prefix(std::min(line.find_first_not_of(kSpace, kCoding.size()), line.size()));
    const std::size_t end = line.find_last_not_of(kSpace);
    line = line.substr(0, end == std::string_view::npos ? 0 : end + 1);
    return begins_with(line, "chunked") && line.size() == 7
               ? nullptr
               : "the answer has a transfer coding that was not asked for";
}

std::size_t
Request::take_header(char *data, std::size_t size, std::size_t count, void *self)
{
    auto &request = *static_cast<Request *>(self);
    const std::string_view line(data, size * count);
    request.header_bytes_ += line.size();
    request.fault_ = request.fault_of(line);
    if (request.fault_ != nullptr)
        return 0;
    if (line == "\r\n" || line == "\n")
        request.has_headers_ = true;
    constexpr std::string_view kRetryAfter = "retry-after:";
    try
    {
        if (begins_with(line, "http/"))
        {
            request.retry_after_.clear(); // a new answer, behind one of the kind 1xx
            request.has_headers_ = false;
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
    const int fd = ::socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
    if (fd < 0)
        return CURL_SOCKET_BAD;
    request.wakes_.add(fd);
    Cutter::begin_anew(); // authorities may be read for it
    return fd;
}

// Another one may have its number at once.
int
Request::close_socket(void *wakes, curl_socket_t fd)
{
    static_cast<Wakes *>(wakes)->forget(fd);
    return ::close(fd);
}

} // namespace outbox::http
