// Adds up payments, each once, however often their events arrive. Ctrl-C ends it.
//
//   create table balances (account text primary key, balance numeric not null);
//   consumer 'dbname=books' localhost:9092
#include <csignal>
#include <cstdio>
#include <memory>

#include <outbox/consumer.h>
#include <outbox/error.h>

static outbox::Consumer *the_consumer;

// Everything that it does in `transaction` is committed together with the mark that the event has
// been processed, or not at all. An exception means that it is tried again.
static void
add_up(PGconn *transaction, const outbox::Record &record)
{
    const char *values[] = {record.value ? record.value->c_str() : nullptr};
    const std::unique_ptr<PGresult, decltype(&PQclear)> result(
        PQexecParams(transaction,
                     "insert into balances as b"
                     " select $1::jsonb ->> 'account', ($1::jsonb ->> 'amount')::numeric"
                     " on conflict (account) do update set balance = b.balance + excluded.balance",
                     1, nullptr, values, nullptr, nullptr, 0),
        &PQclear);
    if (PQresultStatus(result.get()) != PGRES_COMMAND_OK)
        throw std::runtime_error(PQerrorMessage(transaction));
}

int
main(int argc, char **argv)
{
    if (argc != 3)
    {
        std::fprintf(stderr, "usage: consumer conninfo bootstrap_servers\n");
        return 2;
    }
    try
    {
        outbox::ConsumerOptions options;
        options.consumer = "balances"; // all processes that share the work have the same name
        options.conninfo = argv[1];
        options.bootstrap_servers = argv[2];
        options.topics = {"outbox.event.payment"};
        options.batch = 100;
        options.offsets = outbox::OffsetPolicy::postgres;
        outbox::Consumer consumer(options, &add_up);

        the_consumer = &consumer;
        std::signal(SIGINT, [](int) { the_consumer->stop(); });
        std::signal(SIGTERM, [](int) { the_consumer->stop(); });
        consumer.run();
        return 0;
    }
    catch (const outbox::DeadLetterError &error)
    {
        // Nothing is lost: the record is met again by whoever starts next.
        std::fprintf(stderr, "look at %s/%d offset %lld: %s\n", error.topic().c_str(),
                     error.partition(), static_cast<long long>(error.offset()), error.what());
    }
    catch (const outbox::Error &error)
    {
        std::fprintf(stderr, "%s (%s)\n", error.what(), error.code().c_str());
    }
    return 1;
}
