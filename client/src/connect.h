// Connecting to PostgreSQL as libpq's PQconnectdb() does, but so that a stop ends the wait, and so
// does what a server sends without end. outboxctl connects so, too.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <libpq-fe.h>

#include "name_service.h"
#include "stop_flag.h"

namespace outbox::v0::detail
{

using Connection = std::unique_ptr<PGconn, decltype(&PQfinish)>;

// Goes through all hosts of the connection string and all addresses of each, in their order or,
// with load_balance_hosts=random, in any. libpq applies connect_timeout and the walk over hosts
// that do not answer only in its functions that block, so that is done here: each address has its
// time, of connect_timeout or 10 s where that is not set, whatever it sends meanwhile, and all
// names together have it once. A server that sends megabytes before it lets us in is left at once,
// as libpq keeps parameters that it is sent. A round that takes long is ended after a minute, and
// the next one continues behind it.
class Connector
{
public:
    using Settings = std::vector<std::pair<std::string, std::string>>; // names and values

    // Throws UsageError if `conninfo` is not understood.
    Connector(const std::string &conninfo, const std::string &application);
    // With libpq's settings, of which the last one of a name counts; "dbname" may be a connection
    // string. No host is begun with after `round`.
    Connector(Settings settings, std::chrono::seconds round);

    // Throws DatabaseError 08001 with what each host said, or Stopped.
    Connection connect(const StopFlag &stop);

    // Where to pass what a server says while it lets us in, instead of libpq's stderr; only the
    // first notices of an attempt.
    using Notices = std::function<void(const char *)>;
    void pass_notices_to(Notices notices) { notices_ = std::move(notices); }

    // Errors are as long as what the hosts say, for who cuts them off behind another step.
    void keep_whole_errors() { whole_ = true; }

    // After an error: one that a server, or libpq, has refused, if there is one; best one that
    // lacks a password.
    Connection take_failed() { return std::move(failed_); }

private:
    // What one attempt says instead of the connection string.
    struct Target
    {
        std::size_t host = 0; // its place in the list
        std::string name;     // for messages
        Settings settings;
    };

    std::vector<Target> targets(int *timeout_ms, const StopFlag &stop);
    static std::vector<Target> standbys_first(const std::vector<Target> &list);
    Connection start(const Settings &settings) const;

    Settings settings_;
    std::chrono::seconds round_;
    NameService names_;
    Notices notices_;
    bool whole_ = false;
    Connection failed_{nullptr, &PQfinish};
    std::size_t first_ = 0; // where the next round begins
};

// Waits until the socket is ready or the time is over (-1: none), but no longer than until a stop.
void wait_for_socket(int socket, short events, int timeout_ms, const StopFlag *stop);

} // namespace outbox::v0::detail
