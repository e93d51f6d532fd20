// Answers as no server should give them: the sink neither reads where it must not, nor takes them
// for what they are not, and goes on.
#include "webhook_scene.h"

#include "bgworker/sinks/http/answer.h"
#include "extension/core/json_text.h"

#include "support/seed.h"

#include <gmock/gmock.h>

#include <atomic>
#include <map>
#include <mutex>
#include <random>
#include <set>

namespace outbox::test
{

namespace
{

// Broken answers, made from a seed. None of them is a whole answer of the kind 2xx.
class Answers
{
public:
    explicit Answers(unsigned seed) : random_(seed) {}

    HttpReply next()
    {
        HttpReply reply;
        std::string text = status_line() + headers();
        if (chance(3))
            text += chunks();
        else
            text += "content-length: " + std::to_string(number(5000)) + "\r\n\r\n" +
                    bytes(number(2000));
        if (chance(4))
            mutate(text);
        // What would be good is not.
        if (text.substr(0, 10) == "HTTP/1.1 2" || text.substr(0, 10) == "HTTP/1.0 2")
            text[9] = '5';
        if (chance(3))
            text.resize(number(static_cast<int>(text.size()) + 1));
        if (chance(5))
            text += bytes(number(3000));
        cut(text, reply);
        reply.close = true;
        return reply;
    }

private:
    int number(int end)
    {
        return std::uniform_int_distribution<int>(0, std::max(end - 1, 0))(random_);
    }
    bool chance(int in) { return number(in) == 0; }
    std::string bytes(int count)
    {
        std::string all;
        for (int i = 0; i < count; i++)
            all += static_cast<char>(number(256));
        return all;
    }
    std::string status_line()
    {
        static const char *const kLines[] = {"HTTP/1.1 500 Broken",
                                             "HTTP/1.1 302 Found",
                                             "HTTP/1.0 404 No",
                                             "HTTP/1.1 99 Low",
                                             "HTTP/1.1 100 Continue",
                                             "HTTP/1.1 103 Hints",
                                             "HTTP/1.1 101 Switching Protocols",
                                             "HTTP/9.9 500 Later",
                                             "HTTP/2 500",
                                             "ICY 200 OK",
                                             "HTTP/1.1 -1 X",
                                             "HTTP/1.1 999999 X",
                                             "HTTP/1.1",
                                             "HTTP/1.1 503 Wait",
                                             "HTTP/1.1 407 Proxy",
                                             "HTTP/1.1 429 Slow"};
        std::string line = kLines[number(std::size(kLines))];
        if (chance(6))
            line += bytes(number(200));
        return line + "\r\n";
    }
    std::string headers()
    {
        static const char *const kHeaders[] = {"Retry-After: 0",
                                               "Retry-After: -1",
                                               "Retry-After: Thu, 01 Jan 1970 00:00:00 GMT",
                                               "Retry-After: soon",
                                               "Content-Length: -5",
                                               "Content-Length: 99999999999999999999",
                                               "Transfer-Encoding: gzip",
                                               "Transfer-Encoding: chunked, chunked",
                                               "Connection: keep-alive",
                                               "Folded: a\r\n b\r\n\tc",
                                               " Folded-first: a",
                                               "Location: file:///etc/passwd",
                                               "Set-Cookie: a=b; domain=.",
                                               "Content-Encoding: br",
                                               "Alt-Svc: h3=\":443\"",
                                               "Upgrade: h2c",
                                               "WWW-Authenticate: Negotiate",
                                               "no colon",
                                               ": no name",
                                               "Trailer: x",
                                               "Strict-Transport-Security: max-age=1"};
        std::string all;
        for (int i = number(6); i > 0; i--)
            all += std::string(kHeaders[number(std::size(kHeaders))]) + (chance(5) ? "\n" : "\r\n");
        if (chance(8))
            all += "X-Long: " + std::string(number(200000), 'x') + "\r\n";
        return all;
    }
    std::string chunks()
    {
        std::string all = "transfer-encoding: chunked\r\n\r\n";
        for (int i = number(4); i >= 0; i--)
        {
            static const char *const kSizes[] = {"5", "0", "-1",    "fffffffffffffffff",
                                                 "g", "",  "5;x=y", "7fffffffffffffff"};
            all += std::string(kSizes[number(std::size(kSizes))]) + "\r\n" + bytes(5) + "\r\n";
        }
        return all + (chance(2) ? "0\r\nTrailer: a\r\n b\r\n\r\n" : "");
    }
    void mutate(std::string &text)
    {
        for (int i = number(6); i >= 0 && !text.empty(); i--)
            text[static_cast<std::size_t>(number(static_cast<int>(text.size())))] =
                static_cast<char>(number(256));
    }
    void cut(const std::string &text, HttpReply &reply)
    {
        reply.pause_ms = chance(10) ? 2 : 0;
        const std::size_t most = reply.pause_ms > 0 ? text.size() / 20 + 1 : text.size() / 3 + 1;
        for (std::size_t at = 0; at < text.size(); at += most)
            reply.pieces.push_back(text.substr(at, most));
    }

    std::mt19937 random_;
};

// Every event is answered with rubbish for a while, then well.
TEST(WebhookFuzz, BrokenAnswersHarmNothing)
{
    const unsigned seed = choose_seed();
    std::mutex mutex;
    Answers answers(seed);
    int broken = 0;
    std::map<std::uint64_t, std::string> last; // that each event was answered with, if broken
    HttpServer server(
        [&](const HttpRequest &request)
        {
            const std::lock_guard<std::mutex> lock(mutex);
            std::string &answer = last[std::stoull(request.body)];
            answer.clear();
            if (++broken >= 1500)
                return HttpReply::status(200);
            const HttpReply reply = answers.next();
            for (const std::string &piece : reply.pieces)
                answer += piece;
            return reply;
        });
    Webhooks hooks(server.url(), {{"timeout", "500ms"}, {"max_in_flight", "16"}},
                   [](http::Setup &setup)
                   {
                       setup.backoff_initial_ms = 1;
                       setup.backoff_max_ms = 1;
                   });
    std::uint64_t tag = 0;
    const bool done = hooks.serve_until(
        [&]
        {
            while (hooks.sink->outstanding() < 40 && server.count() < 1500)
            {
                tag++;
                hooks.produce(tag, std::to_string(tag % 60), std::to_string(tag));
            }
            hooks.sink->send_now();
            Failure why;
            EXPECT_FALSE(hooks.sink->fatal(why)) << why.text;
            return server.count() >= 1500 && hooks.sink->outstanding() == 0;
        },
        std::chrono::seconds(60));
    EXPECT_TRUE(done) << server.count() << " requests, " << hooks.sink->outstanding() << " left";
    // Only what a good answer was given to has been delivered; and never two results for one.
    for (const std::uint64_t acked : hooks.heard.acked)
        EXPECT_EQ(last[acked], "") << acked;
    std::set<std::uint64_t> settled(hooks.heard.acked.begin(), hooks.heard.acked.end());
    for (const auto &[failed, failure] : hooks.heard.failures)
        EXPECT_TRUE(settled.insert(failed).second) << failed;
    EXPECT_EQ(settled.size(), tag);
}

TEST(WebhookFuzz, AnEndlessAnswerIsCutOff)
{
    for (const bool in_headers : {false, true})
    {
        std::atomic<int> asked{0};
        HttpServer server(
            [&](const HttpRequest &)
            {
                if (++asked > 1)
                    return HttpReply::status(200);
                HttpReply reply;
                reply.pieces = {in_headers
                                    ? "HTTP/1.1 200 OK\r\n"
                                    : "HTTP/1.1 400 No\r\ncontent-length: 999999999\r\n\r\n"};
                for (int i = 0; i < 100; i++)
                    reply.pieces.push_back((in_headers ? "X: " : "") + std::string(4000, 'x') +
                                           "\r\n");
                return reply;
            });
        Webhooks hooks(server.url());
        hooks.produce(1, "a");
        ASSERT_TRUE(hooks.settle(1));
        if (in_headers)
        {
            EXPECT_STREQ(hooks.heard.troubles.at(0).name, "PROTOCOL");
            EXPECT_EQ(hooks.heard.acked.size(), 1u);
        }
        else
        {
            // The answer is known, whatever follows.
            EXPECT_STREQ(hooks.heard.failures.at(0).second.name, "HTTP_400");
            EXPECT_LE(std::string(hooks.heard.failures[0].second.text).size(), 1200u);
        }
    }
}

// libcurl makes 200 of what it cannot read behind "HTTP/".
TEST(WebhookFuzz, AFirstLineThatIsNoneIsNoSuccess)
{
    for (const char *line : {"HTTP/x.1 429 Slow", "HTTP/1.1 2000 OK", "HTTP/1.1 20 OK", "HTTP 200",
                             "HTTP/1.1  200 OK", "HTTP/200", " HTTP/1.1 200 OK", "ICY 200 OK"})
    {
        std::atomic<int> asked{0};
        HttpServer server(
            [&](const HttpRequest &)
            {
                HttpReply reply = HttpReply::status(200);
                if (++asked == 1)
                    reply.pieces = {std::string(line) + "\r\ncontent-length: 0\r\n\r\n"};
                reply.close = true;
                return reply;
            });
        Webhooks hooks(server.url());
        hooks.produce(1, "a");
        ASSERT_TRUE(hooks.settle(1)) << line;
        EXPECT_EQ(hooks.heard.acked.size(), 1u) << line;
        EXPECT_EQ(server.count(), 2u) << line;
    }
}

// Neither an answer that breaks off among its headers, wherever, nor one whose body is in a code
// that was not asked for; and the next attempt is answered.
TEST(WebhookFuzz, WhatIsNoWholeAnswerIsNoSuccess)
{
    const std::string whole = "HTTP/1.1 200 OK\r\nX-Request: 1\r\ncontent-length: 0\r\n\r\n";
    std::vector<std::string> answers;
    for (std::size_t size = 1; size < whole.size() - 1; size++)
        answers.push_back(whole.substr(0, size));
    for (const char *coding : {"gzip, chunked", "zstd, zstd, chunked", "br,chunked", "deflate",
                               "chunked, gzip", "identity, gzip", "x-gzip", "chunked, chunked"})
        answers.push_back("HTTP/1.1 200 OK\r\ntransfer-encoding: " + std::string(coding) +
                          "\r\n\r\n0\r\n\r\n");
    answers.push_back("HTTP/1.1 200 OK\r\nx: " + std::string(200000, 'x') + "\r\n\r\n");
    for (const std::string &answer : answers)
    {
        std::atomic<int> asked{0};
        HttpServer server(
            [&](const HttpRequest &)
            {
                HttpReply reply = HttpReply::status(200);
                if (++asked == 1)
                    reply.pieces = {answer};
                reply.close = true;
                return reply;
            });
        Webhooks hooks(server.url());
        hooks.produce(1, "a");
        const std::string shown = answer.substr(0, 100);
        ASSERT_TRUE(hooks.settle(1)) << shown;
        EXPECT_EQ(hooks.heard.acked.size(), 1u) << shown;
        EXPECT_EQ(server.count(), 2u) << shown;
        ASSERT_FALSE(hooks.heard.troubles.empty()) << shown;
        EXPECT_THAT(std::string(hooks.heard.troubles[0].name), testing::AnyOf("PROTOCOL", "CLOSED"))
            << shown;
    }
}

// An answer that trickles in for ever counts as none.
TEST(WebhookFuzz, ASlowDripIsATimeOut)
{
    std::atomic<int> asked{0};
    HttpServer server(
        [&](const HttpRequest &)
        {
            if (++asked > 1)
                return HttpReply::status(200);
            HttpReply reply;
            reply.pieces = {"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n"};
            for (int i = 0; i < 200; i++)
                reply.pieces.emplace_back("x");
            reply.pause_ms = 10;
            return reply;
        });
    Webhooks hooks(server.url(), {{"timeout", "200ms"}});
    hooks.produce(1, "a");
    ASSERT_TRUE(hooks.settle(1));
    EXPECT_STREQ(hooks.heard.troubles.at(0).name, "TIMEOUT");
    EXPECT_EQ(server.count(), 2u);
}

// Whatever the bytes are, the text is UTF-8 in one line.
TEST(WebhookFuzz, TextsOfAnswersAreCleaned)
{
    std::mt19937 random(choose_seed());
    for (int round = 0; round < 2000; round++)
    {
        std::string bytes;
        for (int i = 0; i < 80; i++)
            bytes += static_cast<char>(random() % 3 == 0 ? random() % 256 : 0xc0 + random() % 64);
        const std::string clean = http::clean_text(bytes, 60);
        EXPECT_LE(clean.size(), 60u);
        EXPECT_EQ(http::clean_text(clean, 60), clean);
        for (const char c : clean)
            EXPECT_TRUE(static_cast<unsigned char>(c) >= ' ' && c != '\x7f');
    }
    EXPECT_EQ(http::clean_text("a\r\n\t b\x1b[31mc\xe2\x80\xae"
                               "d\xc2\x85"
                               "e\xed\xa0\x80",
                               100),
              "a b [31mc d e???");
    EXPECT_EQ(http::clean_text("\xe2\x82\xac\xe2\x82\xac", 5), "\xe2\x82\xac");
}

TEST(WebhookFuzz, JsonIsToldFromWhatIsNone)
{
    for (const char *good : {"1", "-0.5e+3", "\"a\\u00e9\\n\"", "[]", "{}", "[[],{}]", " null ",
                             "{\"a\": [1, 2, {\"b\": \"c\"}]}", "true"})
        EXPECT_TRUE(is_json(good)) << good;
    for (const char *bad : {"", "1,2", "[1", "[1,]", "{\"a\"}", "{a:1}", "01", "1.", "\"\\x\"",
                            "\"a", "nul", "[}", "{\"a\":1,}", "1 2", "]", "\"\\u12g4\"", "-"})
        EXPECT_FALSE(is_json(bad)) << bad;
    EXPECT_TRUE(is_json(std::string(1000000, '[') + std::string(1000000, ']')));
    EXPECT_FALSE(is_json(std::string(1000000, '[')));
}

} // namespace

} // namespace outbox::test
