// One request and its answer.
#pragma once

#include "answer.h"
#include "setup.h"

#include <curl/curl.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace outbox::http
{

struct Lane;
struct Message;
class Signer;
class Station;
class Wakes;

struct EasyCleanup
{
    void operator()(CURL *easy) const noexcept { curl_easy_cleanup(easy); }
};
struct ListCleanup
{
    void operator()(curl_slist *list) const noexcept { curl_slist_free_all(list); }
};
using Easy = std::unique_ptr<CURL, EasyCleanup>;
using List = std::unique_ptr<curl_slist, ListCleanup>;

// Libraries before 8.1.1 read freed memory when a handle is used again and a header is folded.
bool may_reuse_handles() noexcept;

struct Answer
{
    Outcome outcome = Outcome::trouble;
    int status = 0; // 0: there is none
    std::int64_t retry_after_ms = -1;
    bool maybe_arrived = false; // although it has failed
    Failure failure;            // its class is for the caller to set
};

class Request
{
public:
    // An answer's headers may have so many bytes, those of all it sends together; its body too, or
    // the rest is not read.
    static constexpr std::size_t kMostHeaderBytes = std::size_t{64} * 1024;
    static constexpr std::size_t kMostBodyBytes = std::size_t{256} * 1024;
    static constexpr std::size_t kShownBytes = 1024;

    // `wakes` knows which sockets there are; it has to last until libcurl has closed them all.
    Request(Station &station, Wakes &wakes) noexcept;
    Request(const Request &) = delete;
    Request &operator=(const Request &) = delete;

    // Makes a handle, with what is the same for all messages, unless there is one. May be left to
    // prepare(), and throws and returns what that does.
    bool open();
    // Makes the handle ready to be added. `addresses` and the message must last until the end. May
    // throw std::bad_alloc; false for everything else, which is no memory either.
    bool prepare(const Message &message, curl_slist *addresses, std::int64_t timestamp);
    CURL *easy() const noexcept { return easy_.get(); }
    // What came of it.
    Answer finish(CURLcode code);
    // For the next one.
    void reset() noexcept;
    // Its connection was ended here.
    void note_cut() noexcept;

    Lane *lane = nullptr;
    std::uint64_t started = 0;

private:
    const char *fault_of(std::string_view line) const noexcept;
    static std::size_t take_header(char *data, std::size_t size, std::size_t count, void *self);
    static std::size_t take_body(char *data, std::size_t size, std::size_t count, void *self);
    static curl_socket_t open_socket(void *self, curlsocktype purpose, curl_sockaddr *address);
    static int close_socket(void *wakes, curl_socket_t fd);
    bool set_connection(CURL *easy);
    bool set_tls(CURL *easy);
    bool add_headers(const Message &message, std::int64_t timestamp);
    curl_slist *list_headers();
    Answer answered(int status);
    Answer failed(CURLcode code);
    bool has_expired(CURLcode code) const;
    void describe(Answer &answer, const char *name, const std::string &text) const;

    const Setup &setup_;
    Wakes &wakes_;
    Signer &signer_;
    Easy easy_;
    std::string headers_; // lines, with a null byte behind each
    std::vector<curl_slist> list_;
    char error_[CURL_ERROR_SIZE] = "";
    const char *fault_ = nullptr; // what of the answer was given up
    std::string body_;
    std::string retry_after_;
    std::string denied_;
    int status_ = 0;           // by the answer's first line
    bool has_headers_ = false; // all of them, to the empty line
    std::size_t header_bytes_ = 0;
    std::size_t body_bytes_ = 0;
};

} // namespace outbox::http
