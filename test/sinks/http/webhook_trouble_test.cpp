// What the webhook sink does when its endpoint is in trouble, and how it keeps within limits.
#include "webhook_scene.h"

#include <gmock/gmock.h>

#include <atomic>
#include <ctime>
#include <mutex>
#include <set>

namespace outbox::test
{

namespace
{

using testing::ElementsAre;
using testing::HasSubstr;

HttpServer::Handler
always(int status)
{
    return [=](const HttpRequest &) { return HttpReply::status(status); };
}

// No event is to blame, so none fails, however long it lasts, and nothing is sent twice at once.
TEST(Webhook, TroubleOfTheEndpointIsWaitedFor)
{
    std::atomic<int> asked{0};
    HttpServer server([&](const HttpRequest &)
                      { return HttpReply::status(++asked <= 6 ? 500 : 200, "out of order"); });
    Webhooks hooks(server.url());
    for (std::uint64_t tag = 1; tag <= 10; tag++)
        hooks.produce(tag, std::to_string(tag));
    ASSERT_TRUE(hooks.settle(10));
    EXPECT_EQ(hooks.heard.acked.size(), 10u);
    EXPECT_GE(hooks.heard.troubles.size(), 3u);
    for (const Failure &trouble : hooks.heard.troubles)
    {
        EXPECT_EQ(trouble.cls, FailureClass::retriable);
        EXPECT_TRUE(trouble.summary);
        EXPECT_GE(trouble.retry_after_ms, 5);
        EXPECT_THAT(trouble.text, HasSubstr("answered 500 Internal Server Error: out of order"));
    }
    EXPECT_EQ(server.count(), 16u);
}

TEST(Webhook, NobodyThereIsTroubleToo)
{
    int port = 0;
    {
        const Listener listener;
        port = listener.port();
    }
    Webhooks hooks("http://127.0.0.1:" + std::to_string(port) + "/");
    hooks.produce(1, "a");
    hooks.produce(2, "b");
    ASSERT_TRUE(hooks.serve_until([&] { return hooks.heard.troubles.size() >= 4; }));
    EXPECT_STREQ(hooks.heard.troubles[0].name, "CONNECT");
    EXPECT_FALSE(hooks.sink->reachable(0));
    EXPECT_EQ(hooks.heard.results(), 0u);
    EXPECT_GE(hooks.heard.troubles[3].retry_after_ms, 80);
}

TEST(Webhook, AnEventThatMeetsTroubleWhileOthersAreServedIsToBlame)
{
    HttpServer server([](const HttpRequest &request)
                      { return HttpReply::status(request.body == "\"poison\"" ? 500 : 200); });
    Webhooks hooks(server.url());
    hooks.produce(1, "p", "\"poison\"");
    hooks.produce(2, "p");
    std::uint64_t tag = 10;
    ASSERT_TRUE(hooks.serve_until(
        [&]
        {
            if (hooks.sink->outstanding() < 6)
            {
                tag++;
                hooks.produce(tag, std::to_string(tag % 7));
                hooks.sink->send_now();
            }
            return !hooks.heard.failures.empty();
        }));
    EXPECT_EQ(hooks.heard.failures[0].first, 1u);
    EXPECT_EQ(hooks.heard.failures[0].second.cls, FailureClass::event);
    EXPECT_STREQ(hooks.heard.failures[0].second.name, "HTTP_500");
    EXPECT_TRUE(hooks.heard.failures[1].second.consequence);
    EXPECT_GT(hooks.heard.acked.size(), 2u);
}

// With nothing else to send it cannot be told whose trouble it is.
TEST(Webhook, AnEventThatMeetsTroubleAloneIsNotToBlame)
{
    HttpServer server(always(500));
    Webhooks hooks(server.url());
    hooks.produce(1, "p");
    ASSERT_TRUE(hooks.serve_until([&] { return server.count() >= 6; }));
    EXPECT_EQ(hooks.heard.results(), 0u);
}

// Each event's first request finds its connection closed, before or behind an answer.
TEST(Webhook, AClosedConnectionIsTriedAgain)
{
    std::mutex mutex;
    std::set<std::string> seen;
    HttpServer server(
        [&](const HttpRequest &request)
        {
            const std::lock_guard<std::mutex> lock(mutex);
            HttpReply reply = HttpReply::status(200);
            if (seen.insert(request.body).second)
                reply.pieces = {"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n1"};
            reply.close = true;
            return reply;
        });
    Webhooks hooks(server.url());
    for (std::uint64_t tag = 1; tag <= 30; tag++)
        hooks.produce(tag, std::to_string(tag % 6), std::to_string(tag));
    ASSERT_TRUE(hooks.settle(30));
    EXPECT_EQ(hooks.heard.acked.size(), 30u);
    EXPECT_EQ(server.count(), 60u);
    EXPECT_STREQ(hooks.heard.troubles.at(0).name, "CLOSED");
}

TEST(Webhook, RetryAfterHoldsAllBackInSecondsOrUntilADate)
{
    for (const bool as_date : {false, true})
    {
        std::atomic<int> asked{0};
        HttpServer server(
            [&](const HttpRequest &)
            {
                if (++asked > 1)
                    return HttpReply::status(200);
                char date[64] = "2";
                const std::time_t then = std::time(nullptr) + 3;
                std::tm parts = {};
                if (as_date)
                    (void) std::strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT",
                                         gmtime_r(&then, &parts));
                return HttpReply::status(as_date ? 503 : 429, "",
                                         "Retry-After: " + std::string(date) + "\r\n");
            });
        Webhooks hooks(server.url());
        const auto began = Clock::now();
        hooks.produce(1, "a");
        hooks.produce(2, "b");
        ASSERT_TRUE(hooks.serve_until([&] { return hooks.heard.results() >= 1; }));
        EXPECT_GE(since(began), Milliseconds(1900));
        EXPECT_EQ(hooks.heard.troubles.size(), 1u);
        EXPECT_GE(hooks.heard.troubles.at(0).retry_after_ms, 1900);
        EXPECT_LE(hooks.heard.troubles.at(0).retry_after_ms, 3000);
        EXPECT_THAT(hooks.heard.acked, ElementsAre(1));
    }
}

// An endpoint that is too busy is not asked again and again as fast as it can say so.
TEST(Webhook, RetryAfterThatIsOverIsNone)
{
    for (const int status : {429, 503})
        for (const char *when : {"0", "00", "Wed, 21 Oct 2015 07:28:00 GMT"})
        {
            SCOPED_TRACE(std::to_string(status) + ", " + when);
            HttpServer server(
                [&](const HttpRequest &) {
                    return HttpReply::status(status, "",
                                             "Retry-After: " + std::string(when) + "\r\n");
                });
            Webhooks hooks(server.url());
            hooks.produce(1, "a");
            ASSERT_TRUE(hooks.serve_until([&] { return hooks.heard.troubles.size() >= 5; }));
            for (const Failure &trouble : hooks.heard.troubles)
                EXPECT_GE(trouble.retry_after_ms, 5);
            EXPECT_GE(hooks.heard.troubles[4].retry_after_ms, 80);
            EXPECT_LE(server.count(), 6u);
        }
}

TEST(Webhook, RetryAfterIsBounded)
{
    HttpServer server([](const HttpRequest &)
                      { return HttpReply::status(503, "", "retry-after: 99999999999999\r\n"); });
    Webhooks hooks(server.url());
    hooks.produce(1, "a");
    ASSERT_TRUE(hooks.serve_until([&] { return !hooks.heard.troubles.empty(); }));
    EXPECT_EQ(hooks.heard.troubles[0].retry_after_ms, http::EndpointState::kLongestHoldMs);
}

TEST(Webhook, RetryAfterADateThatNeverComesIsBounded)
{
    for (const char *year : {"9999", "99999999", "2147483647"})
    {
        HttpServer server(
            [&](const HttpRequest &)
            {
                return HttpReply::status(
                    503, "", "retry-after: Sun, 06 Nov " + std::string(year) + " 08:49:37 GMT\r\n");
            });
        Webhooks hooks(server.url());
        hooks.produce(1, "a");
        ASSERT_TRUE(hooks.serve_until([&] { return !hooks.heard.troubles.empty(); }));
        EXPECT_LE(hooks.heard.troubles[0].retry_after_ms, http::EndpointState::kLongestHoldMs);
    }
}

TEST(Webhook, AnEndpointThatSaysNothingIsGivenUpInTime)
{
    std::atomic<int> asked{0};
    HttpServer server([&](const HttpRequest &)
                      { return ++asked == 1 ? HttpReply::silence() : HttpReply::status(200); });
    Webhooks hooks(server.url(), {{"timeout", "300ms"}});
    hooks.produce(1, "a");
    ASSERT_TRUE(hooks.settle(1));
    EXPECT_THAT(hooks.heard.acked, ElementsAre(1));
    EXPECT_STREQ(hooks.heard.troubles.at(0).name, "TIMEOUT");
}

TEST(Webhook, RateIsKept)
{
    HttpServer server(always(200));
    Webhooks hooks(server.url(), {{"rate", "50"}});
    const auto began = Clock::now();
    for (std::uint64_t tag = 1; tag <= 30; tag++)
        hooks.produce(tag, std::to_string(tag));
    ASSERT_TRUE(hooks.settle(30));
    EXPECT_GE(since(began), Milliseconds(450));
    EXPECT_LE(since(began), Milliseconds(3000));
}

TEST(Webhook, WhatIsPurgedIsGivenUp)
{
    HttpServer server([](const HttpRequest &) { return HttpReply::silence(); });
    Webhooks hooks(server.url());
    hooks.produce(1, "a");
    hooks.produce(2, "a");
    hooks.produce(3, "b");
    ASSERT_TRUE(hooks.serve_until([&] { return server.count() >= 1; }));
    hooks.sink->purge();
    EXPECT_EQ(hooks.sink->outstanding(), 3u);
    ASSERT_TRUE(hooks.settle(3));
    EXPECT_EQ(hooks.sink->outstanding(), 0u);
    for (const auto &[tag, failure] : hooks.heard.failures)
    {
        EXPECT_TRUE(failure.consequence);
        EXPECT_EQ(failure.possibly_persisted, tag == 1) << tag;
    }
}

// The limits are the endpoint's, whoever sends; and nobody is left out.
TEST(Webhook, SinksOfADestinationShareItsLimits)
{
    std::atomic<int> under_way{0};
    std::atomic<int> most{0};
    HttpServer server(
        [&](const HttpRequest &)
        {
            most = std::max(most.load(), ++under_way);
            std::this_thread::sleep_for(Milliseconds(2));
            under_way--;
            return HttpReply::status(200);
        });
    Webhooks hooks(server.url(), {{"max_in_flight", "2"}});
    const auto other = hooks.open(Destination::Use::redelivery);
    Heard heard;
    Failure why;
    for (std::uint64_t tag = 1; tag <= 100; tag++)
        hooks.produce(tag, std::to_string(tag));
    // The first one has all there is by now.
    ASSERT_TRUE(hooks.settle(10));
    for (std::uint64_t tag = 1001; tag <= 1100; tag++)
        ASSERT_EQ(produce_to(*other, tag, std::to_string(tag), "{}", {}, why),
                  ProduceResult::queued);
    other->send_now();
    std::size_t others_meanwhile = 0;
    ASSERT_TRUE(hooks.serve_until(
        [&]
        {
            (void) other->serve(heard, 100);
            if (hooks.heard.results() < 100)
                others_meanwhile = heard.results();
            return hooks.heard.results() == 100 && heard.results() == 100;
        }));
    EXPECT_LE(most, 2);
    EXPECT_GE(others_meanwhile, 30u);
}

} // namespace

} // namespace outbox::test
