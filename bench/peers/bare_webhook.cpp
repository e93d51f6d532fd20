#include "bare_webhook.h"

#include <memory>
#include <stdexcept>
#include <vector>

#include <curl/curl.h>

#include "bench/support/inputs.h"

namespace outbox::bench
{

namespace
{

size_t
ignore(char *, size_t size, size_t count, void *)
{
    return size * count;
}

struct Slot
{
    CURL *easy = nullptr;
    curl_slist *headers = nullptr;
};

void
prepare(Slot &slot, const std::string &url, const std::string &key, const std::string &payload)
{
    curl_slist_free_all(slot.headers);
    slot.headers = nullptr;
    for (const std::string &line :
         {std::string("content-type: application/json"),
          std::string("outbox-event-type: order.placed"),
          std::string("outbox-aggregate-type: bench"), "outbox-aggregate-id: " + key,
          std::string("outbox-created-at: 2026-01-31T09:05:00.000123Z"),
          std::string("webhook-id: 01900000-0000-7000-8000-000000000000"),
          std::string("webhook-timestamp: 1700000000"), std::string("Expect:")})
        slot.headers = curl_slist_append(slot.headers, line.c_str());
    curl_easy_setopt(slot.easy, CURLOPT_URL, url.c_str());
    curl_easy_setopt(slot.easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(slot.easy, CURLOPT_PROXY, "");
    curl_easy_setopt(slot.easy, CURLOPT_HTTPHEADER, slot.headers);
    curl_easy_setopt(slot.easy, CURLOPT_POST, 1L);
    curl_easy_setopt(slot.easy, CURLOPT_POSTFIELDSIZE, static_cast<long>(payload.size()));
    curl_easy_setopt(slot.easy, CURLOPT_POSTFIELDS, payload.c_str());
    curl_easy_setopt(slot.easy, CURLOPT_WRITEFUNCTION, ignore);
    curl_easy_setopt(slot.easy, CURLOPT_PRIVATE, &slot);
}

void
check(CURL *easy, CURLcode code)
{
    long status = 0;
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    if (code != CURLE_OK || status != 204)
        throw std::runtime_error("a bare request failed");
}

} // namespace

void
send_bare(const std::string &url, int64_t count, int at_once)
{
    CURLM *multi = curl_multi_init();
    curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, static_cast<long>(at_once));
    std::vector<Slot> slots(static_cast<size_t>(at_once));
    int64_t begun = 0;
    int64_t ended = 0;
    const auto begin = [&](Slot &slot)
    {
        const Input &input = inputs()[static_cast<size_t>(begun++) % inputs().size()];
        prepare(slot, url, input.key, input.payload);
        curl_multi_add_handle(multi, slot.easy);
    };
    for (Slot &slot : slots)
    {
        slot.easy = curl_easy_init();
        if (begun < count)
            begin(slot);
    }
    while (ended < count)
    {
        int running = 0;
        curl_multi_perform(multi, &running);
        int left = 0;
        while (const CURLMsg *message = curl_multi_info_read(multi, &left))
        {
            Slot *slot = nullptr;
            curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &slot);
            check(slot->easy, message->data.result);
            curl_multi_remove_handle(multi, slot->easy);
            ended++;
            if (begun < count)
                begin(*slot);
        }
        if (ended < count)
            curl_multi_poll(multi, nullptr, 0, 1000, nullptr);
    }
    for (Slot &slot : slots)
    {
        curl_easy_cleanup(slot.easy);
        curl_slist_free_all(slot.headers);
    }
    curl_multi_cleanup(multi);
}

BareWebhook::BareWebhook(const std::string &url) : url_(url), easy_(curl_easy_init()) {}

BareWebhook::~BareWebhook()
{
    curl_easy_cleanup(easy_);
}

void
BareWebhook::send(const std::string &key, const std::string &payload)
{
    Slot slot;
    slot.easy = easy_;
    prepare(slot, url_, key, payload);
    check(easy_, curl_easy_perform(easy_));
    curl_slist_free_all(slot.headers);
}

} // namespace outbox::bench
