#include "bgworker/sinks/nats/judgement.h"
#include "bgworker/sinks/nats/message.h"

#include <gtest/gtest.h>

#include <random>

namespace outbox::test
{

namespace
{

using nats::Answer;
using nats::judge_answer;
using nats::Reach;
using nats::read_answer;

TEST(NatsAnswer, AnAcknowledgementNamesStreamAndNumber)
{
    const Answer answer =
        read_answer(R"({"stream":"ORDERS","domain":"x","seq":12,"duplicate":true})");
    EXPECT_TRUE(answer.is_stored());
    EXPECT_STREQ(answer.stream, "ORDERS");
    EXPECT_EQ(answer.sequence, 12U);
    EXPECT_TRUE(answer.duplicate);
    EXPECT_EQ(judge_answer("a", "", answer).reach, Reach::none);
    EXPECT_EQ(judge_answer("a", "ORDERS", answer).reach, Reach::none);
}

TEST(NatsAnswer, NothingElseIsTakenForAnAcknowledgement)
{
    for (const char *json :
         {"", "ok", "{}", "[]", "null", R"({"seq":1})", R"({"stream":"A"})",
          R"({"stream":"","seq":1})", R"({"stream":"A","seq":0})", R"({"stream":"A","seq":-1})",
          R"({"stream":"A","seq":"1"})", R"({"stream":"A","seq":1)", R"({"stream":"A","seq":1}})",
          R"({"stream":"A","seq":1} x)", R"({"a":{"stream":"A","seq":1}})",
          R"({"stream":"A","seq":99999999999999999999})", R"({"stream":"A","seq":1,"error":null})"})
    {
        const Answer answer = read_answer(json);
        EXPECT_FALSE(answer.is_stored()) << json;
        EXPECT_NE(judge_answer("a", "", answer).reach, Reach::none) << json;
    }
    // Of another stream than everything has to go to.
    EXPECT_EQ(judge_answer("a", "B", read_answer(R"({"stream":"A","seq":1})")).reach,
              Reach::subject);
}

Answer
error(int http, int code, const std::string &text)
{
    return read_answer(R"({"type":"x","error":{"code":)" + std::to_string(http) +
                       R"(,"err_code":)" + std::to_string(code) + R"(,"description":")" + text +
                       R"("},"stream":"A","seq":0})");
}

TEST(NatsAnswer, ARefusalReachesAsFarAsItsReason)
{
    const Answer full = error(503, 10077, "maximum messages exceeded");
    EXPECT_EQ(judge_answer("a", "", full).reach, Reach::subject);
    EXPECT_EQ(judge_answer("a", "A", full).reach, Reach::destination);
    EXPECT_EQ(
        judge_answer("a", "A", error(503, 10077, "maximum messages per subject exceeded")).reach,
        Reach::subject);
    const nats::Judgement large =
        judge_answer("a", "A", error(400, 10054, "message size exceeds maximum allowed"));
    EXPECT_EQ(large.reach, Reach::event);
    EXPECT_EQ(large.failure.cls, FailureClass::event);
    EXPECT_TRUE(large.failure.too_large);
    EXPECT_EQ(judge_answer("a", "", error(400, 10060, "expected stream does not match")).reach,
              Reach::subject);
    EXPECT_EQ(judge_answer("a", "", error(503, 10008, "temporarily unavailable")).reach,
              Reach::destination);
    EXPECT_EQ(judge_answer("a", "", error(500, 10047, "insufficient storage")).reach,
              Reach::destination);
    EXPECT_EQ(judge_answer("a", "", error(400, 12345, "something new")).reach, Reach::event);
    EXPECT_EQ(judge_answer("a", "", error(500, 12345, "something new")).reach, Reach::subject);
    EXPECT_EQ(nats::judge_no_responders("a").failure.cls, FailureClass::topic);
}

TEST(NatsAnswer, TextsOfAServerAreCutAndCleaned)
{
    const Answer answer = error(400, 1, std::string(10000, 'x'));
    EXPECT_LT(std::string(answer.description).size(), sizeof answer.description);
    EXPECT_TRUE(answer.has_error);
    EXPECT_FALSE(read_answer(std::string(nats::kMaxAnswerSize + 1, ' ')).is_json);
    std::string deep;
    for (int i = 0; i < 100000 && deep.size() < nats::kMaxAnswerSize; i++)
        deep += R"({"a":)";
    EXPECT_FALSE(read_answer(deep).is_json);
    EXPECT_FALSE(read_answer("{\"a\":" + std::string(60000, '[')).is_json);
}

// Valid answers with a few bytes changed, and plain noise: never a crash, and an acknowledgement
// only when both parts of it are there.
TEST(NatsAnswer, AnswersMayBeAnything)
{
    std::mt19937 random(23);
    const std::string whole =
        R"({"type":"io.nats","error":{"code":503,"err_code":10077,"description":"a\"b"},"stream":"A","seq":7,"x":[1,{"y":null}]})";
    for (int i = 0; i < 50000; i++)
    {
        std::string json = whole;
        for (auto changes = random() % 6; changes > 0; changes--)
        {
            const std::size_t at = random() % json.size();
            switch (random() % 3)
            {
            case 0:
                json[at] = static_cast<char>(random());
                break;
            case 1:
                json.erase(at, random() % 20);
                break;
            default:
                json.insert(at, 1, "{}[]\",:\\0n"[random() % 10]);
            }
            if (json.empty())
                json = "{";
        }
        const Answer answer = read_answer(json);
        ASSERT_TRUE(!answer.is_stored() || (json.find("stream") != std::string::npos &&
                                            json.find("seq") != std::string::npos));
        (void) judge_answer("a", "", answer);
    }
}

TEST(NatsAnswer, OnlyTheInboxHasTokens)
{
    std::uint64_t token = 0;
    EXPECT_TRUE(nats::read_token("_INBOX.x.1f", "_INBOX.x", token));
    EXPECT_EQ(token, 0x1fU);
    for (const char *subject : {"_INBOX.x", "_INBOX.x.", "_INBOX.y.1", "_INBOX.x.1.2", "_INBOX.x.g",
                                "_INBOX.xx1", "", "_INBOX.x.11111111111111111"})
        EXPECT_FALSE(nats::read_token(subject, "_INBOX.x", token)) << subject;
}

} // namespace

} // namespace outbox::test
