#include "pipeline.h"

#include <stdexcept>

#include <endian.h>

namespace outbox::bench
{

namespace
{

constexpr int kBatch = 64;

template <class Number>
std::string
bytes_of(Number value)
{
    return {reinterpret_cast<const char *>(&value), sizeof(value)};
}

} // namespace

WireParam
text_param(std::string value)
{
    return {std::move(value), false};
}

WireParam
binary_param(int64_t value)
{
    return {bytes_of(htobe64(static_cast<uint64_t>(value))), true};
}

WireParam
binary_param(int16_t value)
{
    return {bytes_of(htobe16(static_cast<uint16_t>(value))), true};
}

Pipeline::Pipeline(const std::string &conninfo)
    : connection_(PQconnectdb(conninfo.c_str()), &PQfinish)
{
    if (PQstatus(connection_.get()) != CONNECTION_OK)
        fail("connect");
}

void
Pipeline::fail(const char *what)
{
    throw std::runtime_error(std::string(what) + ": " + PQerrorMessage(connection_.get()));
}

std::string
Pipeline::exec(const std::string &sql)
{
    const std::unique_ptr<PGresult, decltype(&PQclear)> result(
        PQexec(connection_.get(), sql.c_str()), &PQclear);
    const ExecStatusType status = PQresultStatus(result.get());
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
        fail(sql.c_str());
    return PQntuples(result.get()) > 0 ? PQgetvalue(result.get(), 0, 0) : "";
}

void
Pipeline::prepare(const std::string &sql, int params)
{
    const std::unique_ptr<PGresult, decltype(&PQclear)> result(
        PQprepare(connection_.get(), "s", sql.c_str(), params, nullptr), &PQclear);
    if (PQresultStatus(result.get()) != PGRES_COMMAND_OK)
        fail(sql.c_str());
}

void
Pipeline::send(const std::vector<WireParam> &params)
{
    std::vector<const char *> values;
    std::vector<int> lengths;
    std::vector<int> formats;
    for (const WireParam &param : params)
    {
        values.push_back(param.bytes.data());
        lengths.push_back(static_cast<int>(param.bytes.size()));
        formats.push_back(param.binary ? 1 : 0);
    }
    if (PQsendQueryPrepared(connection_.get(), "s", static_cast<int>(params.size()), values.data(),
                            lengths.data(), formats.data(), 1) != 1)
        fail("send");
}

void
Pipeline::call(const std::vector<WireParam> &params)
{
    send(params);
    take_result();
}

void
Pipeline::flush()
{
    if (PQsendFlushRequest(connection_.get()) != 1 || PQflush(connection_.get()) < 0)
        fail("flush");
}

// The result of a statement, and the null that ends its results.
void
Pipeline::take_result()
{
    const std::unique_ptr<PGresult, decltype(&PQclear)> result(PQgetResult(connection_.get()),
                                                               &PQclear);
    const ExecStatusType status = PQresultStatus(result.get());
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
        fail("statement");
    if (PQgetResult(connection_.get()) != nullptr)
        fail("an unexpected second result");
}

void
Pipeline::run(int count, const std::function<std::vector<WireParam>(int)> &params_of)
{
    if (PQenterPipelineMode(connection_.get()) != 1)
        fail("pipeline");
    int sent = 0;
    int taken = 0;
    while (taken < count)
    {
        // Two batches are under way before the first result is waited for.
        const int until = std::min(count, taken + 2 * kBatch);
        if (sent < until)
        {
            for (; sent < until; sent++)
                send(params_of(sent));
            flush();
        }
        const int enough = std::min(count, taken + kBatch);
        for (; taken < enough; taken++)
            take_result();
    }
    if (PQpipelineSync(connection_.get()) != 1)
        fail("sync");
    const std::unique_ptr<PGresult, decltype(&PQclear)> end(PQgetResult(connection_.get()),
                                                            &PQclear);
    if (PQresultStatus(end.get()) != PGRES_PIPELINE_SYNC ||
        PQexitPipelineMode(connection_.get()) != 1)
        fail("end of pipeline");
}

} // namespace outbox::bench
