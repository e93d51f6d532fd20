#pragma once

#include <filesystem>
#include <string>

#include "support/kafka_cluster.h"

namespace outbox::test
{

// A Kafka that creates no topic by itself and has an authorizer. Who comes to bootstrap() may do
// everything; who comes by password only what allow_write() allows "User:relay".
class RestrictedKafka
{
public:
    static constexpr const char *kUser = "relay";
    static constexpr const char *kPassword = "relay's p4ss";
    static constexpr const char *kScramPassword = "scr4m-p4ss";

    // Started at first use, for all tests of this run.
    static RestrictedKafka &instance();

    RealKafka &kafka() { return kafka_; }
    std::string bootstrap() const { return kafka_.bootstrap(); }
    std::string password_bootstrap() const; // SASL, mechanisms PLAIN and SCRAM-SHA-256
    std::string tls_bootstrap() const;

    // Of the authority that signed Kafka's certificate, and of one that did not.
    std::string authority() const { return (directory_ / "authority.pem").string(); }
    std::string stranger() const { return (directory_ / "stranger.pem").string(); }

    // A properties file that the server can read.
    std::string write_properties(const std::string &text) const;

private:
    RestrictedKafka();

    std::filesystem::path directory_;
    int password_port_;
    int tls_port_;
    RealKafka kafka_;
};

} // namespace outbox::test
