// A connection of which requests end in every way, and what is under way on it meanwhile.
#pragma once

#include <chrono>
#include <memory>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "harness.h"
#include "outbox/idempotent_request.h"

namespace outbox::test
{

using Connection = std::unique_ptr<PGconn, decltype(&PQfinish)>;

struct EndScene
{
    EndScene() : database(cluster()), db(database.connect()), connection(connect())
    {
        two_phase.mode = outbox::RequestMode::two_phase;
        two_phase.lease = std::chrono::minutes(10);
    }
    Connection connect() const
    {
        Connection made(PQconnectdb(cluster().conninfo(database.name()).c_str()), &PQfinish);
        run_sql(made.get(), "set client_min_messages = error"); // its own lines on stderr
        return made;
    }
    void run(const std::string &sql) const { run_sql(connection.get(), sql); }
    // One by one, as some fail.
    void run_all(const std::string &several) const
    {
        std::istringstream statements(several);
        for (std::string sql; std::getline(statements, sql, ';');)
            PQclear(PQexec(connection.get(), sql.c_str()));
    }
    std::unique_ptr<IdempotentRequest> begin(const outbox::RequestOptions &options)
    {
        return std::make_unique<IdempotentRequest>(connection.get(), "shop",
                                                   "k" + std::to_string(++number),
                                                   std::string(32, 'x'), options);
    }
    // Of the last one that was begun.
    std::string state()
    {
        return db.value("select coalesce((select case when completed_at is not null then"
                        " 'completed' when lease_until > now() then 'leased' else 'unanswered' end"
                        " from outbox.idempotency_keys where key = $1), 'free')",
                        "k" + std::to_string(number));
    }

    TestDatabase database;
    Db db;
    Connection connection;
    outbox::RequestOptions two_phase;
    int number = 0;
};

// What is under way on the connection when the object is destroyed.
enum class Left
{
    open,
    failed,
    statement, // with more rows to come
    copy,
    pipeline
};

inline void
leave(PGconn *connection, Left left)
{
    if (left == Left::failed)
        PQclear(PQexec(connection, "select 1/0"));
    if (left == Left::statement)
    {
        EXPECT_EQ(PQsendQuery(connection, "select generate_series(1, 3)"), 1);
        EXPECT_EQ(PQsetSingleRowMode(connection), 1);
        PQclear(PQgetResult(connection));
    }
    if (left == Left::copy)
        PQclear(PQexec(connection, "copy nothing from stdin"));
    if (left == Left::pipeline)
    {
        EXPECT_EQ(PQenterPipelineMode(connection), 1);
    }
}

inline void
take_up(PGconn *connection, Left left)
{
    if (left == Left::copy)
    {
        EXPECT_EQ(PQputCopyEnd(connection, nullptr), 1);
    }
    while (PGresult *result = PQgetResult(connection))
        PQclear(result);
    if (left == Left::pipeline)
    {
        EXPECT_EQ(PQexitPipelineMode(connection), 1);
    }
}

} // namespace outbox::test
