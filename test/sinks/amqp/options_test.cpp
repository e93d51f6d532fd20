#include "bgworker/sinks/amqp/setup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <unistd.h>

namespace outbox::test
{

namespace
{

using testing::HasSubstr;

SinkOptions
options(const std::vector<std::pair<std::string, std::string>> &texts)
{
    SinkOptions made;
    for (const auto &[name, text] : texts)
        made.set_text(name, text);
    return made;
}

// What is wrong with them; empty: nothing.
std::string
fault_of(const SinkOptions &given)
{
    OptionFault fault;
    return amqp::kSinkKind.check(given, fault) ? "" : fault.message;
}

// A file that is removed again.
struct TemporaryFile
{
    explicit TemporaryFile(const std::string &text)
    {
        const int fd = mkstemp(path);
        std::ofstream(path) << text;
        (void) close(fd);
    }
    ~TemporaryFile() { (void) std::remove(path); }
    char path[32] = "/tmp/outbox-test-XXXXXX";
};

std::string
settings_of(const SinkOptions &given, amqp::Settings &settings)
{
    SinkSettings all;
    all.options = given;
    all.client_id = "outbox-shop";
    all.subscription = "billing";
    all.directory = "/nowhere";
    Failure why;
    if (amqp::read_settings(all, settings, why))
        return "";
    EXPECT_EQ(why.cls, FailureClass::config);
    return why.text;
}

TEST(AmqpOptions, AKeyWithAPassphraseIsRefused)
{
    const auto fault = [](const std::string &header)
    {
        const TemporaryFile key(header + "\nMIIB\n");
        amqp::Settings settings;
        return settings_of(options({{"host", "a"},
                                    {"exchange", "x"},
                                    {"tls", "true"},
                                    {"ca_file", key.path},
                                    {"cert_file", key.path},
                                    {"key_file", key.path}}),
                           settings);
    };
    EXPECT_EQ(fault("-----BEGIN PRIVATE KEY-----"), "");
    for (const char *header : {"-----BEGIN ENCRYPTED PRIVATE KEY-----",
                               "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED"})
        EXPECT_THAT(fault(header), testing::AllOf(HasSubstr("key_file"), HasSubstr("passphrase")));
}

TEST(AmqpOptions, WhatIsNeededAndWhatGoesTogether)
{
    EXPECT_EQ(fault_of(options({{"host", "a"}, {"exchange", "x"}})), "");
    EXPECT_EQ(fault_of(options({{"uri_file", "/a"}, {"exchange", ""}})), "");
    EXPECT_THAT(fault_of(options({{"host", "a"}})), HasSubstr("\"exchange\""));
    for (const char *uri : {"amqp://u:secret@a", "u:secret@a", "amqps://a"})
        for (const char *name : {"host", "uri_file"})
            EXPECT_THAT(fault_of(options({{name, uri}, {"exchange", "x"}})),
                        testing::AllOf(HasSubstr("a URI"), testing::Not(HasSubstr("secret"))))
                << name << ' ' << uri;
    EXPECT_THAT(fault_of(options({{"exchange", "x"}})), HasSubstr("\"uri_file\""));
    EXPECT_THAT(fault_of(options({{"host", "a"}, {"uri_file", "/a"}, {"exchange", "x"}})),
                HasSubstr("either"));
    EXPECT_THAT(fault_of(options({{"uri_file", "/a"}, {"exchange", "x"}, {"vhost", "v"}})),
                HasSubstr("does not go with"));
    EXPECT_THAT(fault_of(options({{"host", "a"}, {"exchange", "x"}, {"username", "u"}})),
                HasSubstr("password_file"));
    EXPECT_THAT(fault_of(options({{"host", "a"}, {"exchange", "x"}, {"cert_file", "u"}})),
                HasSubstr("go together"));
    EXPECT_THAT(fault_of(options({{"host", "a"}, {"exchange", "x"}, {"ca_file", "u"}})),
                HasSubstr("\"tls\""));
    EXPECT_THAT(fault_of(options({{"host", "a"}, {"exchange", std::string(256, 'x')}})),
                HasSubstr("255"));
    for (const char *name : {"heartbeat", "connect_timeout", "confirm_timeout", "max_unconfirmed",
                             "port", "mandatory", "tls"})
        EXPECT_NE(fault_of(options({{"host", "a"}, {"exchange", "x"}, {name, "-1"}})), "") << name;
    SinkOptions wrong = options({{"host", "a"}});
    wrong.set("exchange", {OptionValue::Kind::object, "", {{"a", "b"}}});
    EXPECT_NE(fault_of(wrong), "");
}

TEST(AmqpOptions, BecomeSettings)
{
    const TemporaryFile password("pass word \n");
    SinkOptions given = options({{"host", "rabbit-1"},
                                 {"exchange", "events"},
                                 {"vhost", "shop"},
                                 {"username", "outbox"},
                                 {"password_file", password.path},
                                 {"heartbeat", "3s"},
                                 {"confirm_timeout", "2min"}});
    given.set("port", {OptionValue::Kind::number, "7000", {}});
    given.set("max_unconfirmed", {OptionValue::Kind::number, "10", {}});
    given.set("mandatory", {OptionValue::Kind::boolean, "false", {}});
    amqp::Settings settings;
    ASSERT_EQ(settings_of(given, settings), "");
    EXPECT_EQ(settings.host, "rabbit-1");
    EXPECT_EQ(settings.port, 7000);
    EXPECT_EQ(settings.vhost, "shop");
    EXPECT_EQ(settings.username, "outbox");
    EXPECT_EQ(settings.password, "pass word ");
    EXPECT_EQ(settings.heartbeat_s, 3);
    EXPECT_EQ(settings.confirm_timeout_ms, 120000);
    EXPECT_EQ(settings.window, 10u);
    EXPECT_FALSE(settings.mandatory);
    EXPECT_EQ(settings.name, "outbox-shop billing");
    amqp::Settings again;
    ASSERT_EQ(settings_of(given, again), "");
    EXPECT_TRUE(settings == again);
    again.password += "x";
    EXPECT_FALSE(settings == again);
}

TEST(AmqpOptions, UriIsReadFromItsFileAndNeverShown)
{
    const TemporaryFile good("amqp://u:hunter2@h:1/v\n");
    amqp::Settings settings;
    ASSERT_EQ(settings_of(options({{"uri_file", good.path}, {"exchange", "x"}}), settings), "");
    EXPECT_EQ(settings.password, "hunter2");
    EXPECT_EQ(settings.vhost, "v");
    for (const char *text : {"amqp:u:hunter2@h", "amqp://u:hunter2@h:x", "amqp://u:hunter2@h\n#",
                             "", "\n", "amqp://u:hunter2@h?cacertfile=1"})
    {
        const TemporaryFile bad(text);
        const std::string said =
            settings_of(options({{"uri_file", bad.path}, {"exchange", "x"}}), settings);
        EXPECT_THAT(said, HasSubstr("uri_file")) << text;
        EXPECT_THAT(said, testing::Not(HasSubstr("hunter2")));
    }
    EXPECT_THAT(settings_of(options({{"uri_file", "absent"}, {"exchange", "x"}}), settings),
                HasSubstr("/nowhere/absent"));
    EXPECT_THAT(settings_of(options({{"uri_file", "/dev/zero"}, {"exchange", "x"}}), settings),
                HasSubstr("cannot open"));
}

} // namespace

} // namespace outbox::test
