// What a webhook's options may be, and the files that they name.
#include "webhook_scene.h"

#include "bgworker/sinks/http/signature.h"
#include "extension/core/networks.h"

#include "support/seed.h"
#include "support/workspace.h"

#include <gmock/gmock.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/stat.h>

#include <array>
#include <cstring>
#include <random>

namespace outbox::test
{

namespace
{

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string
fault_of(Given given, const std::vector<std::pair<std::string, std::string>> &headers = {})
{
    const auto has = [&](const char *name)
    {
        return std::any_of(given.begin(), given.end(),
                           [&](const auto &item) { return item.first == name; });
    };
    if (!has("url"))
        given.emplace_back("url", "https://h/");
    if (!has("secret_file"))
        given.emplace_back("secret_file", "s");
    SinkOptions options = options_of(given);
    if (!headers.empty())
        options.set("headers", {OptionValue::Kind::object, "", headers});
    http::Options read;
    OptionFault fault;
    return http::read_options(options, read, fault)
               ? ""
               : fault.message + ". " + fault.detail + " " + fault.hint;
}

TEST(WebhookOptions, AreRefusedWithAReason)
{
    EXPECT_EQ(fault_of({}), "");
    EXPECT_EQ(fault_of({{"timeout", "15s"}, {"rate", "0"}, {"max_in_flight", "256"}}), "");
    EXPECT_THAT(fault_of({{"timeout", "1ms"}}), HasSubstr("\"timeout\""));
    EXPECT_THAT(fault_of({{"max_in_flight", "257"}}), HasSubstr("\"max_in_flight\""));
    EXPECT_THAT(fault_of({{"format", "xml"}}), HasSubstr("cloudevents-structured"));
    EXPECT_THAT(fault_of({{"cert_file", "c"}}), HasSubstr("belong together"));
    EXPECT_THAT(fault_of({{"url", "http://h/"}, {"ca_file", "c"}}), HasSubstr("https://"));
    SinkOptions none;
    http::Options read;
    OptionFault fault;
    EXPECT_FALSE(http::read_options(none, read, fault));
    EXPECT_EQ(fault.message, "options must have \"url\"");
    none.set_text("url", "https://h/");
    EXPECT_FALSE(http::read_options(none, read, fault));
    EXPECT_EQ(fault.message, "options must have \"secret_file\"");
    none.set_text("format", "cloudevents");
    EXPECT_TRUE(http::read_options(none, read, fault));
}

TEST(WebhookOptions, AUrlIsOneOfHttp)
{
    for (const char *good : {"https://h", "http://a.b-c.d_e:8080/x?y=z", "https://[::1]:1/",
                             "HTTPS://Example.COM/", "http://127.0.0.1"})
        EXPECT_EQ(fault_of({{"url", good}}), "") << good;
    for (const char *bad : {"ftp://h/",
                            "file:///etc/passwd",
                            "//h",
                            "h",
                            "http:/h",
                            "http://",
                            "http:///x",
                            "http://h:0/",
                            "http://h:65536/",
                            "http://h:/",
                            "http://h:80x/",
                            "http://u@h/",
                            "http://u:p@h/",
                            "http://h/ x",
                            "http://h/\n",
                            "http://h/#f",
                            "http://h\\@x/",
                            "http://[::1/",
                            "http://[x]/",
                            "http://[::1]x/",
                            "http://[1.2.3.4]/",
                            "http://[::1::1]/",
                            "http://[::12345]/",
                            "http://./",
                            "http://.h/",
                            "http://h..h/",
                            "http://h%2f/",
                            "http://\xc3\xa9/",
                            "http://-h/",
                            "gopher://h/"})
        EXPECT_THAT(fault_of({{"url", bad}}), HasSubstr("option \"url\"")) << bad;
    EXPECT_THAT(fault_of({{"url", "http://u:hunter2@h/"}}), Not(HasSubstr("hunter2")));
    EXPECT_THAT(fault_of({{"url", "http://h/" + std::string(3000, 'x')}}), HasSubstr("too long"));
    http::Endpoint endpoint;
    OptionFault fault;
    ASSERT_TRUE(http::parse_url("https://Example.com:444/secret?token", endpoint, fault));
    EXPECT_EQ(endpoint.shown, "https://Example.com:444");
    EXPECT_EQ(endpoint.host, "example.com");
    EXPECT_EQ(endpoint.port, 444);
}

TEST(WebhookOptions, HeadersNeitherForgeNorShowSecrets)
{
    for (const char *name : {"X-Environment", "x-author", "x-partition-key", "X-Tenant"})
        EXPECT_EQ(fault_of({}, {{name, "prod"}}), "") << name;
    for (const char *name :
         {"host", "Content-Length", "Transfer-Encoding", "webhook-id", "Webhook-Signature", "ce-id",
          "outbox-x", "a b", "a:b", "", "a\r\nb", "connection", "user-agent"})
        EXPECT_THAT(fault_of({}, {{name, "v"}}), HasSubstr("must not set")) << name;
    for (const char *name :
         {"Authorization", "cookie", "X-Api-Key", "x-auth-token", "X-API_KEY", "Cookie2",
          "x-passwd", "X-Auth", "X-Auth-Key", "access.key", "X-Credentials"})
        EXPECT_THAT(fault_of({}, {{name, "hunter2"}}),
                    AllOf(HasSubstr("headers_file"), Not(HasSubstr("hunter2"))))
            << name;
    for (const char *value : {"a\r\nb: c", "\xc3\xa9", " a", "", "a\x01"})
        EXPECT_THAT(fault_of({}, {{"x", value}}), HasSubstr("printable ASCII")) << value;
}

std::string
problem_of_files(const Given &given)
{
    http::Setup setup;
    OptionFault fault;
    Given all = {{"url", "https://h/"}, {"format", "cloudevents"}};
    all.insert(all.end(), given.begin(), given.end());
    if (!http::read_options(options_of(all), setup.options, fault))
        return fault.message;
    Failure why;
    if (http::read_files("/nowhere", setup, why))
        return "";
    EXPECT_EQ(why.cls, FailureClass::config);
    return std::string(why.text) + ". " + why.hint;
}

// libcurl says of them what OpenSSL does, without the file's name; of a key that is encrypted it
// says nothing any more.
TEST(WebhookOptions, CertificatesAndKeysAreCheckedBeforeTheyAreUsed)
{
    const TlsFiles &files = tls_files();
    const auto problem = [](const std::string &ca, const std::string &cert, const std::string &key)
    {
        return problem_of_files({{"ca_file", ca}, {"cert_file", cert}, {"key_file", key}});
    };
    EXPECT_EQ(problem(files.ca, files.client_cert, files.client_key), "");
    for (const std::string &key : encrypted_keys())
        EXPECT_THAT(problem(files.ca, files.client_cert, key),
                    AllOf(HasSubstr("key_file \"" + key), HasSubstr("passphrase"),
                          HasSubstr("openssl pkey")));
    EXPECT_THAT(problem(files.ca, files.client_cert, files.server_key),
                AllOf(HasSubstr("key_file"), HasSubstr("not that of the certificate")));
    EXPECT_THAT(problem(files.ca, files.client_cert, files.ca),
                AllOf(HasSubstr("key_file"), HasSubstr("no key in PEM")));
    EXPECT_THAT(problem(files.ca, files.client_key, files.client_key),
                AllOf(HasSubstr("cert_file"), HasSubstr("no certificate in PEM")));
    EXPECT_THAT(problem(files.client_key, files.client_cert, files.client_key),
                AllOf(HasSubstr("ca_file"), HasSubstr("no certificate in PEM")));
    const std::string whole = read_file(files.ca);
    for (const std::string &text :
         {std::string("garbage\n"), whole.substr(0, whole.size() / 2),
          whole + "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"})
    {
        const TextFile ca(text);
        EXPECT_THAT(problem(ca.path(), files.client_cert, files.client_key),
                    AllOf(HasSubstr("ca_file \"" + ca.path()), HasSubstr("PEM")))
            << text;
    }
    const TextFile several("# two of them\n" + whole + "\n" + read_file(files.server_cert));
    EXPECT_EQ(problem(several.path(), files.client_cert, files.client_key), "");
}

TEST(WebhookOptions, FilesAreReadAndNotShown)
{
    EXPECT_THAT(problem_of_files({{"secret_file", "x"}}),
                HasSubstr("secret_file \"/nowhere/x\": No such file"));
    EXPECT_THAT(problem_of_files({{"secret_file", "/dev/zero"}}), HasSubstr("regular file"));
    const TextFile fifo("");
    (void) unlink(fifo.path().c_str());
    ASSERT_EQ(mkfifo(fifo.path().c_str(), 0600), 0);
    EXPECT_THAT(problem_of_files({{"ca_file", fifo.path()}}), HasSubstr("regular file"));
    const TextFile large(std::string(200000, '#'));
    EXPECT_THAT(problem_of_files({{"secret_file", large.path()}}), HasSubstr("too large"));
    const std::string good = std::string(kSecret) + "\n";
    for (const std::string &bad :
         {std::string("hunter2"), std::string("whsec_hunter!2"), std::string("whsec_aHVudGVyMg=="),
          good + good + good, std::string("# nothing\n")})
    {
        const TextFile file(bad);
        EXPECT_THAT(
            problem_of_files({{"secret_file", file.path()}}),
            AllOf(HasSubstr("secret_file"), Not(HasSubstr("hunter")), Not(HasSubstr("MDEy"))));
    }
    const TextFile marked("\xef\xbb\xbf" + good);
    for (const char *option : {"secret_file", "headers_file"})
        EXPECT_THAT(problem_of_files({{option, marked.path()}}),
                    AllOf(HasSubstr(option), HasSubstr("byte order mark")));
    const TextFile secret("\r\n " + good + "\r\n");
    EXPECT_EQ(problem_of_files({{"secret_file", secret.path()}}), "");
    const TextFile headers("# one\nAuthorization: Bearer x\n\n");
    EXPECT_EQ(problem_of_files({{"headers_file", headers.path()}}), "");
    const TextFile forged("Host: hunter2\n");
    EXPECT_THAT(problem_of_files({{"headers_file", forged.path()}}),
                AllOf(HasSubstr("line 1"), Not(HasSubstr("hunter2"))));
}

// The example of the specification's own test, and its secret.
TEST(WebhookSignature, IsThatOfTheSpecification)
{
    http::SigningKeys keys;
    ASSERT_TRUE(http::parse_secrets("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", keys).ok);
    http::Signer signer(keys);
    for (int time = 0; time < 2; time++)
    {
        std::string signature;
        ASSERT_TRUE(signer.append("msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330",
                                  "{\"test\": 2432232314}", signature));
        EXPECT_EQ(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }
    for (const std::size_t size : {0, 1, 2, 3, 4, 255})
    {
        std::string bytes;
        const std::string text(size, '\xfe');
        ASSERT_TRUE(http::from_base64(http::to_base64(text), bytes));
        EXPECT_EQ(bytes, text);
    }
}

bool
denies(const std::string &list, const std::string &address)
{
    Networks networks;
    EXPECT_TRUE(networks.parse(list).ok) << list;
    sockaddr_in ipv4 = {};
    ipv4.sin_family = AF_INET;
    if (inet_pton(AF_INET, address.c_str(), &ipv4.sin_addr) == 1)
    {
        sockaddr any = {};
        std::memcpy(&any, &ipv4, sizeof any);
        return networks.contain(any);
    }
    sockaddr_in6 ipv6 = {};
    ipv6.sin6_family = AF_INET6;
    EXPECT_EQ(inet_pton(AF_INET6, address.c_str(), &ipv6.sin6_addr), 1);
    return networks.contain(reinterpret_cast<const sockaddr &>(ipv6));
}

TEST(Networks, ContainAddressesInEveryForm)
{
    const std::string list = "169.254.0.0/16, fe80::/10,fd00:ec2::254";
    for (const char *in : {"169.254.169.254", "::ffff:169.254.169.254", "::169.254.0.1",
                           "64:ff9b::169.254.169.254", "fe80::1", "febf::", "fd00:ec2::254"})
        EXPECT_TRUE(denies(list, in)) << in;
    for (const char *out : {"169.253.255.255", "169.255.0.0", "fec0::", "fe7f::", "fd00:ec2::255",
                            "127.0.0.1", "::1", "::"})
        EXPECT_FALSE(denies(list, out)) << out;
    EXPECT_TRUE(denies("0.0.0.0/0", "1.2.3.4"));
    EXPECT_FALSE(denies("0.0.0.0/0", "2001:db8::1"));
    EXPECT_TRUE(denies("::/0", "1.2.3.4"));
    EXPECT_TRUE(denies("10.0.0.0/9", "10.127.255.255"));
    EXPECT_FALSE(denies("10.0.0.0/9", "10.128.0.0"));
    EXPECT_FALSE(denies("", "127.0.0.1"));
}

// Addresses of IPv6 that translators and tunnels take to an address of IPv4.
std::vector<std::string>
ways_to(const std::array<int, 4> &ipv4)
{
    const auto two = [](int a, int b)
    {
        char text[8];
        (void) std::snprintf(text, sizeof text, "%x", a << 8 | b);
        return std::string(text);
    };
    const std::string high = two(ipv4[0], ipv4[1]);
    const std::string low = two(ipv4[2], ipv4[3]);
    const std::string plain = high + ":" + low;
    const std::string inverted =
        two(ipv4[0] ^ 255, ipv4[1] ^ 255) + ":" + two(ipv4[2] ^ 255, ipv4[3] ^ 255);
    return {"::ffff:" + plain,
            "::" + plain,
            "::ffff:0:" + plain,
            "64:ff9b::" + plain,
            "64:ff9b:1::" + plain,
            "64:ff9b:1:ffff:ffff:ffff:" + plain,
            "64:ff9b:1:" + high + ":" + two(0, ipv4[2]) + ":" + two(ipv4[3], 0) + "::",
            "2002:" + plain + "::1",
            "2001:0:" + plain + "::",
            "2001:0:102:304:0:ffff:" + inverted,
            "fd12::5efe:" + plain,
            "2001:db8::200:5efe:" + plain};
}

TEST(Networks, ContainWhatTunnelsAndTranslatorsLeadTo)
{
    std::mt19937 random(choose_seed());
    for (int round = 0; round < 200; round++)
    {
        const std::array<int, 4> ipv4 = {
            static_cast<int>(random() % 256), static_cast<int>(random() % 256),
            static_cast<int>(random() % 256), static_cast<int>(random() % 256)};
        std::string text;
        for (const int byte : ipv4)
            text += (text.empty() ? "" : ".") + std::to_string(byte);
        for (const std::string &way : ways_to(ipv4))
        {
            EXPECT_TRUE(denies(text, way)) << text << " by " << way;
            EXPECT_TRUE(denies(way, way)) << way;
        }
    }
    EXPECT_FALSE(denies("127.0.0.0/8", "2001:db8::1"));
    EXPECT_FALSE(denies("10.0.0.0/8", "fd12::5eff:a00:1"));
}

// A connection to the unspecified address is one to this machine.
TEST(Networks, AnUnspecifiedAddressIsLoopback)
{
    for (const char *unspecified : {"0.0.0.0", "::ffff:0.0.0.0"})
    {
        EXPECT_TRUE(denies("127.0.0.0/8", unspecified)) << unspecified;
        EXPECT_FALSE(denies("127.0.0.2/32, ::1", unspecified)) << unspecified;
    }
    EXPECT_TRUE(denies("::1", "::"));
    EXPECT_FALSE(denies("127.0.0.0/8", "::"));
}

TEST(Networks, AreRefusedWithAReason)
{
    Networks networks;
    for (const char *bad : {"x", "1.2.3", "1.2.3.4/33", "::/129", "1.2.3.4/", "1.2.3.4/-1",
                            "1.2.3.4 5.6.7.8", "localhost", "fe80::1%lo"})
        EXPECT_FALSE(networks.parse(bad).ok) << bad;
    EXPECT_TRUE(networks.parse(" 1.2.3.4 , ").ok);
}

} // namespace

} // namespace outbox::test
