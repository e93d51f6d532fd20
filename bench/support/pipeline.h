// One connection that keeps its backend busy with a prepared statement.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <libpq-fe.h>

namespace outbox::bench
{

// A parameter as it goes over the wire.
struct WireParam
{
    std::string bytes;
    bool binary = false;
};

WireParam text_param(std::string value);
WireParam binary_param(int64_t value);
WireParam binary_param(int16_t value);

class Pipeline
{
public:
    explicit Pipeline(const std::string &conninfo);

    // Runs a command, or a query of which the first field is returned.
    std::string exec(const std::string &sql);

    void prepare(const std::string &sql, int params);

    // Runs the prepared statement `count` times, with the parameters that `params_of` makes from 0,
    // 1, ... Several statements are always on their way, so the backend never waits for us.
    // Needs an open transaction, which it leaves open.
    void run(int count, const std::function<std::vector<WireParam>(int)> &params_of);

    // Runs the prepared statement once and waits for its result.
    void call(const std::vector<WireParam> &params);

    int backend_pid() const { return PQbackendPID(connection_.get()); }

private:
    void send(const std::vector<WireParam> &params);
    void take_result();
    void flush();
    [[noreturn]] void fail(const char *what);

    std::unique_ptr<PGconn, decltype(&PQfinish)> connection_;
};

} // namespace outbox::bench
