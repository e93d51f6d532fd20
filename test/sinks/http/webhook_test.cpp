// What the webhook sink sends, and what it makes of answers.
#include "webhook_scene.h"

#include "bgworker/sinks/http/signature.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <ctime>
#include <map>
#include <mutex>
#include <set>

namespace outbox::test
{

namespace
{

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

HttpServer::Handler
always(int status, const std::string &body = "")
{
    return [=](const HttpRequest &) { return HttpReply::status(status, body); };
}

TEST(Webhook, ARequestIsSignedAndSaysWhatTheEventIs)
{
    HttpServer server(always(204));
    const TextFile secrets(std::string(kSecret) + "\n# the old one\n" +
                           "whsec_YWJjZGVmYWJjZGVmYWJjZGVmYWJjZGVm\n");
    Webhooks hooks(server.url("/a/b?c=d"), {{"secret_file", secrets.path()}});
    hooks.produce(7, "k\xc3\xa9y", "{\"total\": 25.00}",
                  {{"content-type", "application/json"},
                   {"traceparent", "00-ab-cd-01"},
                   {"X-Forwarded_For", "1 2"},
                   {"empty", ""}});
    ASSERT_TRUE(hooks.settle(1));
    EXPECT_THAT(hooks.heard.acked, ElementsAre(7));
    const HttpRequest request = server.requests().at(0);
    EXPECT_EQ(request.method, "POST");
    EXPECT_EQ(request.target, "/a/b?c=d");
    EXPECT_EQ(request.body, "{\"total\": 25.00}");
    EXPECT_EQ(request.header("content-type"), "application/json");
    EXPECT_EQ(request.header("webhook-id"), id_of(7));
    EXPECT_NEAR(std::stod(request.header("webhook-timestamp")),
                static_cast<double>(std::time(nullptr)), 5);
    std::string signature;
    ASSERT_TRUE(http::sign({"0123456789abcdef01234567", "abcdefabcdefabcdefabcdef"}, id_of(7),
                           std::stol(request.header("webhook-timestamp")), request.body,
                           signature));
    EXPECT_EQ(request.header("webhook-signature"), signature);
    EXPECT_EQ(std::count(signature.begin(), signature.end(), ' '), 1);
    EXPECT_EQ(request.header("outbox-event-type"), "order.created");
    EXPECT_EQ(request.header("outbox-aggregate-type"), "order");
    EXPECT_EQ(request.header("outbox-aggregate-id"), "k%C3%A9y");
    EXPECT_EQ(request.header("outbox-created-at"), "2026-01-31T09:05:00.000123Z");
    EXPECT_EQ(request.header("traceparent"), "00-ab-cd-01");
    EXPECT_EQ(request.header("outbox-header-x-forwarded%5ffor"), "1%202");
    EXPECT_TRUE(request.has_header("outbox-header-empty"));
    EXPECT_FALSE(request.has_header("x-forwarded_for"));
    EXPECT_FALSE(request.has_header("expect"));
}

// The relay's headers have one of two forms; a caller's of the other are the caller's. That of a
// replay is before them.
TEST(Webhook, HeadersOfBothFormsAreUnderstood)
{
    HttpServer server(always(204));
    Webhooks hooks(server.url());
    const Header headers[] = {{"replay_id", "3"},      {"id", "i1"},
                              {"event_type", "t"},     {"aggregate_type", "a"},
                              {"created_at", "now"},   {"schema_version", "2"},
                              {"ce_type", "caller's"}, {"nothing", "", true}};
    Record record;
    record.key = "k";
    record.tombstone = true;
    record.headers = headers;
    record.header_count = std::size(headers);
    Failure why;
    ASSERT_EQ(hooks.sink->produce(record, why), ProduceResult::queued);
    ASSERT_TRUE(hooks.settle(1));
    const HttpRequest request = server.requests().at(0);
    EXPECT_EQ(request.header("webhook-id"), "i1");
    EXPECT_EQ(request.header("outbox-replay-id"), "3");
    EXPECT_EQ(request.header("outbox-event-type"), "t");
    EXPECT_EQ(request.header("outbox-aggregate-id"), "k");
    EXPECT_EQ(request.header("outbox-schema-version"), "2");
    EXPECT_EQ(request.header("outbox-header-ce%5ftype"), "caller's");
    EXPECT_EQ(request.header("content-length"), "0");
    EXPECT_FALSE(request.has_header("content-type"));
    record.headers = headers + 2;
    record.header_count = 1;
    EXPECT_EQ(hooks.sink->produce(record, why), ProduceResult::failed);
    EXPECT_EQ(why.cls, FailureClass::event);
}

TEST(Webhook, CloudEventsAreSentInBothModes)
{
    HttpServer server(always(200));
    Webhooks binary(server.url(), {{"format", "cloudevents"}});
    binary.produce(1, "k", "[1]", {{"content-type", "application/json"}});
    ASSERT_TRUE(binary.settle(1));
    HttpRequest request = server.requests().at(0);
    EXPECT_EQ(request.header("ce-specversion"), "1.0");
    EXPECT_EQ(request.header("ce-id"), id_of(1));
    EXPECT_EQ(request.header("ce-source"), "/shop");
    EXPECT_EQ(request.header("ce-type"), "order.created");
    EXPECT_EQ(request.header("ce-subject"), "k");
    EXPECT_EQ(request.body, "[1]");

    Webhooks structured(server.url(), {{"format", "cloudevents-structured"}});
    structured.produce(2, "a\"b", "{\"a\": [1, 2]}", {{"content-type", "application/json"}});
    structured.produce(3, "c", "1,\"id\":\"forged\"", {{"content-type", "application/json"}});
    ASSERT_TRUE(structured.settle(2));
    std::map<std::string, std::string> bodies;
    for (const HttpRequest &one : server.requests())
        bodies[one.header("webhook-id")] = one.body;
    EXPECT_EQ(bodies[id_of(2)],
              "{\"specversion\":\"1.0\",\"id\":\"" + id_of(2) +
                  "\",\"source\":\"/shop\",\"type\":\"order.created\",\"time\":"
                  "\"2026-01-31T09:05:00.000123Z\",\"subject\":\"a\\\"b\",\"aggregatetype\":"
                  "\"order\",\"datacontenttype\":\"application/json\",\"data\":{\"a\": [1, 2]}}");
    EXPECT_THAT(bodies[id_of(3)], HasSubstr("\"data_base64\":\"MSwiaWQiOiJmb3JnZWQi\"}"));
}

TEST(Webhook, EventsOfAKeyAreSentOneAfterTheOtherAndOthersBesideThem)
{
    std::mutex mutex;
    std::map<std::string, int> under_way;
    int most_of_a_key = 0;
    std::atomic<int> all{0};
    std::atomic<int> most{0};
    HttpServer server(
        [&](const HttpRequest &request)
        {
            const std::string key = request.header("outbox-aggregate-id");
            {
                const std::lock_guard<std::mutex> lock(mutex);
                most_of_a_key = std::max(most_of_a_key, ++under_way[key]);
                most = std::max(most.load(), ++all);
            }
            std::this_thread::sleep_for(Milliseconds(2));
            const std::lock_guard<std::mutex> lock(mutex);
            under_way[key]--;
            all--;
            return HttpReply::status(200);
        });
    Webhooks hooks(server.url(), {{"max_in_flight", "8"}});
    for (std::uint64_t tag = 0; tag < 400; tag++)
        hooks.produce(tag, std::to_string(tag % 20));
    ASSERT_TRUE(hooks.settle(400));
    EXPECT_EQ(hooks.heard.acked.size(), 400u);
    EXPECT_EQ(most_of_a_key, 1);
    EXPECT_LE(most, 8);
    EXPECT_GE(most, 4);
    EXPECT_LE(server.connections(), 8);
    std::map<std::string, std::string> last;
    for (const HttpRequest &request : server.requests())
    {
        std::string &id = last[request.header("outbox-aggregate-id")];
        EXPECT_LT(id, request.header("webhook-id"));
        id = request.header("webhook-id");
    }
}

// The sink lives on; what stood behind the refused one is given up unsent, and may come again.
TEST(Webhook, ARefusalIsOfOneEventAndEndsItsKey)
{
    HttpServer server(
        [](const HttpRequest &request)
        {
            return request.body == "\"bad\"" ? HttpReply::status(422, "no\x01such\n\n\xff order")
                                             : HttpReply::status(200);
        });
    Webhooks hooks(server.url());
    hooks.produce(1, "a");
    hooks.produce(2, "a", "\"bad\"");
    hooks.produce(3, "a");
    hooks.produce(4, "a");
    hooks.produce(5, "b");
    ASSERT_TRUE(hooks.settle(5));
    EXPECT_THAT(hooks.heard.acked, testing::UnorderedElementsAre(1, 5));
    ASSERT_EQ(hooks.heard.failures.size(), 3u);
    const auto &[tag, failure] = hooks.heard.failures[0];
    EXPECT_EQ(tag, 2u);
    EXPECT_EQ(failure.cls, FailureClass::event);
    EXPECT_FALSE(failure.consequence);
    EXPECT_STREQ(failure.name, "HTTP_422");
    EXPECT_THAT(failure.text, HasSubstr("answered 422 Unprocessable Content: no such ? order"));
    for (std::size_t i = 1; i < 3; i++)
    {
        EXPECT_EQ(hooks.heard.failures[i].first, i + 2);
        EXPECT_TRUE(hooks.heard.failures[i].second.consequence);
    }
    EXPECT_EQ(server.count(), 3u);
    Failure why;
    EXPECT_FALSE(hooks.sink->fatal(why));
    hooks.produce(6, "a");
    ASSERT_TRUE(hooks.settle(6));
    EXPECT_EQ(hooks.heard.acked.back(), 6u);
}

TEST(Webhook, ARedirectIsARefusal)
{
    HttpServer other(always(200));
    HttpServer server([&](const HttpRequest &)
                      { return HttpReply::status(308, "", "location: " + other.url() + "\r\n"); });
    Webhooks hooks(server.url());
    hooks.produce(1, "a");
    ASSERT_TRUE(hooks.settle(1));
    EXPECT_STREQ(hooks.heard.failures.at(0).second.name, "HTTP_308");
    EXPECT_EQ(hooks.heard.failures[0].second.cls, FailureClass::event);
    EXPECT_THAT(hooks.heard.failures[0].second.hint, HasSubstr("not followed"));
    EXPECT_EQ(other.count(), 0u);
}

TEST(Webhook, GoneStopsEverything)
{
    HttpServer server([](const HttpRequest &request)
                      { return HttpReply::status(request.body == "\"bye\"" ? 410 : 200); });
    Webhooks hooks(server.url());
    hooks.produce(1, "a", "\"bye\"");
    hooks.produce(2, "a");
    hooks.produce(3, "b");
    ASSERT_TRUE(hooks.settle(3));
    EXPECT_EQ(hooks.heard.failures.at(0).first, 1u);
    EXPECT_EQ(hooks.heard.failures[0].second.cls, FailureClass::gone);
    EXPECT_TRUE(hooks.heard.failures[1].second.consequence);
    EXPECT_EQ(server.count(), 1u);
    Failure why;
    ASSERT_TRUE(hooks.sink->fatal(why));
    EXPECT_EQ(why.cls, FailureClass::gone);
    EXPECT_EQ(hooks.sink->outstanding(), 0u);
    EXPECT_EQ(produce_to(*hooks.sink, 4, "c", "{}", {}, why), ProduceResult::failed);
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

TEST(Webhook, RetryAfterIsBounded)
{
    HttpServer server([](const HttpRequest &)
                      { return HttpReply::status(503, "", "retry-after: 99999999999999\r\n"); });
    Webhooks hooks(server.url());
    hooks.produce(1, "a");
    ASSERT_TRUE(hooks.serve_until([&] { return !hooks.heard.troubles.empty(); }));
    EXPECT_EQ(hooks.heard.troubles[0].retry_after_ms, http::EndpointState::kLongestHoldMs);
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

TEST(Webhook, ForbiddenAddressesAreNotConnectedTo)
{
    HttpServer server(always(200));
    for (const std::string &url :
         {server.url(), "http://localhost:" + std::to_string(server.port()) + "/",
          "http://[::ffff:127.0.0.1]:" + std::to_string(server.port()) + "/",
          "http://2130706433:" + std::to_string(server.port()) + "/"})
    {
        Webhooks hooks(url, {},
                       [](http::Setup &setup) { setup.deny_networks = "127.0.0.0/8, ::1"; });
        hooks.produce(1, "a");
        ASSERT_TRUE(hooks.serve_until([&] { return !hooks.heard.troubles.empty(); })) << url;
        EXPECT_STREQ(hooks.heard.troubles[0].name, "ADDRESS_DENIED")
            << hooks.heard.troubles[0].text;
    }
    EXPECT_EQ(server.connections(), 0);
}

TEST(Webhook, AnUnknownHostIsTrouble)
{
    Webhooks hooks("http://no-such-host.invalid/");
    hooks.produce(1, "a");
    ASSERT_TRUE(hooks.serve_until([&] { return !hooks.heard.troubles.empty(); }));
    EXPECT_STREQ(hooks.heard.troubles[0].name, "RESOLVE");
}

TEST(Webhook, EnvironmentAndNetrcAreLeftAlone)
{
    HttpServer proxy(always(200));
    HttpServer server(always(200));
    (void) setenv("http_proxy", proxy.url().c_str(), 1);
    (void) setenv("all_proxy", proxy.url().c_str(), 1);
    Webhooks hooks(server.url());
    hooks.produce(1, "a");
    ASSERT_TRUE(hooks.settle(1));
    (void) unsetenv("http_proxy");
    (void) unsetenv("all_proxy");
    EXPECT_EQ(proxy.count(), 0u);
    EXPECT_FALSE(server.requests().at(0).has_header("authorization"));
}

TEST(Webhook, NoSecretComesBackInAnAnswer)
{
    HttpServer server(
        [](const HttpRequest &request)
        {
            return HttpReply::status(400, "you sent " + request.header("authorization") +
                                              " and MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3");
        });
    const TextFile headers("Authorization: Bearer tok-5ecret\n");
    Webhooks hooks(server.url("/path-of-a-secret"), {{"headers_file", headers.path()}});
    hooks.produce(1, "a");
    ASSERT_TRUE(hooks.settle(1));
    EXPECT_EQ(server.requests().at(0).header("authorization"), "Bearer tok-5ecret");
    const std::string text = hooks.heard.failures.at(0).second.text;
    EXPECT_THAT(text, AllOf(HasSubstr("you sent *** and ***"), Not(HasSubstr("path-of-a-secret"))));
}

TEST(Webhook, TlsIsCheckedWithTheAuthorityAndAClientCertificate)
{
    HttpServer server(always(200), {true, true});
    const TlsFiles &files = tls_files();
    Webhooks good(
        server.url(),
        {{"ca_file", files.ca}, {"cert_file", files.client_cert}, {"key_file", files.client_key}});
    good.produce(1, "a");
    good.produce(2, "a");
    ASSERT_TRUE(good.settle(2));
    EXPECT_EQ(good.heard.acked.size(), 2u);
    EXPECT_EQ(server.connections(), 1);
    for (const Given &bad : {Given{}, Given{{"ca_file", files.ca}}})
    {
        Webhooks hooks(server.url(), bad);
        hooks.produce(1, "a");
        ASSERT_TRUE(hooks.serve_until([&] { return !hooks.heard.troubles.empty(); }));
        EXPECT_EQ(hooks.heard.results(), 0u);
        EXPECT_THAT(std::string(hooks.heard.troubles[0].name), testing::AnyOf("TLS", "CLOSED"))
            << hooks.heard.troubles[0].text;
    }
    EXPECT_EQ(server.count(), 2u);
}

} // namespace

} // namespace outbox::test
