// POST /payments with an Idempotency-Key, as a program for CGI: the request comes in the
// environment and on stdin, the response goes to stdout. A request that comes again gets the answer
// of the first.
//
//   create table payments (id bigint generated always as identity, account text, amount numeric);
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>

#include <outbox/emit.h>
#include <outbox/error.h>
#include <outbox/idempotent_request.h>

using Result = std::unique_ptr<PGresult, decltype(&PQclear)>;
using Outcome = outbox::IdempotentRequest::Outcome;

static std::string
execute(PGconn *connection, const char *sql, const char *value = nullptr)
{
    const Result result(PQexecParams(connection, sql, value != nullptr ? 1 : 0, nullptr, &value,
                                     nullptr, nullptr, 0),
                        &PQclear);
    const ExecStatusType status = PQresultStatus(result.get());
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
        throw std::runtime_error(PQerrorMessage(connection));
    return PQntuples(result.get()) > 0 ? PQgetvalue(result.get(), 0, 0) : "";
}

// The work itself: a row and an event.
static outbox::Response
pay(PGconn *connection, const std::string &body)
{
    const std::string payment =
        execute(connection,
                "insert into payments (account, amount)"
                " select $1::jsonb ->> 'account', ($1::jsonb ->> 'amount')::numeric returning"
                " to_jsonb(payments)",
                body.c_str());
    outbox::emit(connection,
                 {"payment", "all", "payment.booked", outbox::Json{payment}, {}, {}, {}, {}});
    return {201, payment, "application/json", {}};
}

static outbox::Response
answer(PGconn *connection, const std::string &key, const std::string &body)
{
    if (key.empty())
        return {400, "an Idempotency-Key is required\n", "text/plain", {}};
    const std::string hash = outbox::request_hash(connection, "POST", "/payments", body);
    execute(connection, "begin");
    // Destroyed before it is complete, as by an exception of pay(), it gives the key back.
    outbox::IdempotentRequest request(connection, "payments", key, hash);
    switch (request.outcome())
    {
    case Outcome::replay:
        return request.response();
    case Outcome::in_progress:
        return {409, "the first request is still running\n", "text/plain", {{"Retry-After", "1"}}};
    case Outcome::mismatch:
        return {422, "the key belongs to another request\n", "text/plain", {}};
    default:
        break; // ours to do
    }
    const outbox::Response response = pay(connection, body);
    request.complete(response);
    execute(connection, "commit");
    return response;
}

int
main()
{
    const char *key = std::getenv("HTTP_IDEMPOTENCY_KEY");
    const std::string body{std::istreambuf_iterator<char>(std::cin), {}};
    const std::unique_ptr<PGconn, decltype(&PQfinish)> connection(PQconnectdb(""), &PQfinish);
    outbox::Response response{500, "try again\n", "text/plain", {}};
    try
    {
        response = answer(connection.get(), key != nullptr ? key : "", body);
    }
    catch (const std::exception &error)
    {
        std::cerr << error.what() << "\n"; // the transaction ends with the connection
    }
    std::cout << "Status: " << response.status << "\nContent-Type: " << response.content_type
              << "\n";
    for (const auto &[name, value] : response.headers)
        std::cout << name << ": " << value << "\n";
    std::cout << "\n" << response.body;
}
