#pragma once

#include "scene.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

namespace outbox::test
{

// Keeps some hundred messages under way until it is told to stop; then all have to be there.
class Traffic
{
public:
    Traffic(Scene &scene, AmqpDriver &driver) : scene_(scene), driver_(driver) {}

    // Until the condition holds.
    template <class Condition> bool run_until(Condition &&condition)
    {
        return driver_.serve_until(
            [&]
            {
                while (driver_.publisher().outstanding() < 300)
                    sent_.insert(driver_.produce("a", std::to_string(sent_.size() % 50)));
                return condition();
            });
    }
    testing::AssertionResult run_for(std::size_t messages)
    {
        const AmqpEar &ear = driver_.ear();
        const std::size_t before = ear.acked.size();
        if (run_until([&] { return ear.acked.size() >= before + messages; }))
            return testing::AssertionSuccess();
        testing::AssertionResult failure = testing::AssertionFailure();
        failure << ear.acked.size() - before << " acknowledged, " << ear.refused.size()
                << " refused";
        if (!ear.refused.empty())
            failure << ", the first for: " << ear.refused.front().failure.text;
        if (!ear.troubles.empty())
            failure << "; the last trouble: " << ear.troubles.back().text;
        return failure;
    }
    bool run_until_trouble(const std::string &text)
    {
        return run_until([&] { return driver_.ear().has_trouble(text); });
    }

    void expect_all_there()
    {
        ASSERT_TRUE(driver_.serve_until_settled());
        EXPECT_TRUE(driver_.ear().refused.empty());
        std::set<std::uint64_t> there;
        std::map<std::string, std::uint64_t> last;
        AmqpClient client(shared_server().port());
        for (const AmqpMessage &message : client.get_all(scene_.queue))
        {
            const std::uint64_t tag = std::stoull(message.body);
            std::uint64_t &before = last[message.header("key")];
            // The first copies are in order.
            if (there.insert(tag).second)
            {
                EXPECT_GT(tag, before);
                before = tag;
            }
        }
        EXPECT_EQ(there, sent_);
    }

private:
    Scene &scene_;
    AmqpDriver &driver_;
    std::set<std::uint64_t> sent_;
};

} // namespace outbox::test
