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
    const http::SigningKeys keys = {"0123456789abcdef01234567", "abcdefabcdefabcdefabcdef"};
    ASSERT_TRUE(http::Signer(keys).append(id_of(7), request.header("webhook-timestamp"),
                                          request.body, signature));
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

} // namespace

} // namespace outbox::test
