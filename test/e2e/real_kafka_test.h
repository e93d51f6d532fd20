// Tests of what only Apache Kafka itself does: limits of topics, rights, passwords, deleted topics.
#pragma once

#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

namespace outbox::test
{

class BodyTest : public testing::Test
{
public:
    explicit BodyTest(void (*body)()) : body_(body) {}
    void TestBody() override { body_(); }

private:
    void (*body_)();
};

// Makes the test exist when $OUTBOX_TEST_KAFKA is "real".
inline bool
register_with_real_kafka(const char *suite, const char *name, const char *file, int line,
                         void (*body)())
{
    const char *kind = std::getenv("OUTBOX_TEST_KAFKA");
    const bool real = kind != nullptr && std::string(kind) == "real";
    if (real)
        testing::RegisterTest(suite, name, nullptr, nullptr, file, line,
                              [body]() -> testing::Test * { return new BodyTest(body); });
    return real;
}

} // namespace outbox::test

// As TEST(), for a test that there is only with real Kafka.
#define REAL_KAFKA_TEST(suite, name)                                                               \
    static void suite##_##name();                                                                  \
    [[maybe_unused]] static const bool suite##_##name##_exists =                                   \
        outbox::test::register_with_real_kafka(#suite, #name, __FILE__, __LINE__, suite##_##name); \
    static void suite##_##name()
