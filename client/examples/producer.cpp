// Books a payment and emits an event of it in one transaction.
//
//   create table payments (id bigint generated always as identity, account text, amount numeric);
//   producer 'dbname=shop' ada 25.00
#include <cstdio>
#include <memory>
#include <string>

#include <outbox/emit.h>
#include <outbox/error.h>

using Connection = std::unique_ptr<PGconn, decltype(&PQfinish)>;
using Result = std::unique_ptr<PGresult, decltype(&PQclear)>;

// libpq as you use it anyway; the client library has no wrapper of its own.
static std::string
execute(PGconn *connection, const char *sql, const char *const *values, int count)
{
    const Result result(PQexecParams(connection, sql, count, nullptr, values, nullptr, nullptr, 0),
                        &PQclear);
    const ExecStatusType status = PQresultStatus(result.get());
    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
        throw std::runtime_error(PQerrorMessage(connection));
    return PQntuples(result.get()) > 0 ? PQgetvalue(result.get(), 0, 0) : "";
}

static std::string
book(PGconn *connection, const char *account, const char *amount)
{
    execute(connection, "begin", nullptr, 0);
    const char *values[] = {account, amount};
    const std::string payment = execute(connection,
                                        "insert into payments (account, amount) values ($1, $2)"
                                        " returning to_jsonb(payments)",
                                        values, 2);
    outbox::Event event;
    event.aggregate_type = "payment"; // topic outbox.event.payment
    event.aggregate_id = account;     // payments of an account stay in order
    event.event_type = "payment.booked";
    event.payload = outbox::Json{payment};
    const std::string id = outbox::emit(connection, event);
    execute(connection, "commit", nullptr, 0); // from here on it is sure to arrive
    return id;
}

int
main(int argc, char **argv)
{
    if (argc != 4)
    {
        std::fprintf(stderr, "usage: producer conninfo account amount\n");
        return 2;
    }
    const Connection connection(PQconnectdb(argv[1]), &PQfinish);
    try
    {
        if (PQstatus(connection.get()) != CONNECTION_OK)
            throw std::runtime_error(PQerrorMessage(connection.get()));
        std::printf("%s\n", book(connection.get(), argv[2], argv[3]).c_str());
        return 0;
    }
    catch (const outbox::Error &error)
    {
        std::fprintf(stderr, "%s (%s)\n", error.what(), error.code().c_str());
    }
    catch (const std::exception &error)
    {
        std::fprintf(stderr, "%s\n", error.what());
    }
    return 1; // the transaction, if any, ends with the connection: no payment, no event
}
