// A database whose dump is restored in parts or into another, and what that must end in.
#pragma once

#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "faults.h"

namespace outbox::test
{

using Ids = std::vector<std::string>;

constexpr auto kNothingComes = Milliseconds(800);
constexpr const char *kBlocked = "key-blocked";

inline Ids
emit_several(Db &db, const std::string &type, const std::string &key, int count)
{
    Ids ids;
    for (int i = 0; i < count; ++i)
        ids.push_back(db.value("select outbox.emit($1, $2, 'e', '{}')", type, key));
    return ids;
}

inline std::string
dump_of(const PgCluster &server, const std::string &database,
        const std::vector<std::string> &options = {})
{
    std::string file = run_dir() / unique_name("dump.");
    std::vector<std::string> argv = {PgCluster::dump_program("pg_dump"), "--format=custom",
                                     "--file=" + file, "--dbname=" + server.conninfo(database)};
    argv.insert(argv.end(), options.begin(), options.end());
    run_or_throw(Command(argv));
    return file;
}

// Published events; one that has failed, and one that waits behind it; unpublished ones, of which
// one has the key of the failed one. The relay is told of no Kafka.
struct Source
{
    Source() : server(kFaultSettings), database(server)
    {
        kafka().create_topic(database.topic());
        Db db = database.connect();
        published = emit_several(db, database.type(), "key-a", 5);
        failed = emit_several(db, database.type(), kBlocked, 1).front();
        waiting = emit_several(db, database.type(), kBlocked, 1).front();
        EXPECT_EQ(db.value("select outbox.drain('20 s')"), "t");
        server.configure("outbox.bootstrap_servers", "");
        server.reload();
        EXPECT_TRUE(database.reaches_state("not_configured"));
        set_aside(db, failed, "FAILED");
        set_aside(db, waiting, "WAITING");
        unpublished = emit_several(db, database.type(), "key-a", 4);
        behind = emit_several(db, database.type(), kBlocked, 1).front();
        custom = dump_of(server, database.name());
    }

    // As if its topic had been another one: the relay finds its lane by its routes of today.
    void set_aside(Db &db, const std::string &id, const std::string &state) const
    {
        db.exec("insert into outbox.deliveries (seq, xid, slot, event_id, lane, topic, "
                "partition_key, state, blocking, attempts, failed_at, last_error) "
                "select e.seq, e.xid, e.slot, e.id, 1, 'moved', e.aggregate_id, $2, $2 = 'FAILED', "
                "3, "
                "now(), 'REFUSED: by the test' from outbox.events e where e.id = $1",
                id, state);
    }

    OwnCluster server;
    TestDatabase database;
    Ids published;
    Ids unpublished;
    std::string failed;
    std::string waiting;
    std::string behind;
    std::string custom; // the dump
};

inline void
pg_restore(const std::string &dump, const PgCluster &server, const std::string &database,
           const std::string &list)
{
    const std::string file = run_dir() / unique_name("list.");
    write_file(file, list);
    run_or_throw(Command({PgCluster::dump_program("pg_restore"), "--exit-on-error",
                          "--use-list=" + file, "--dbname=" + server.conninfo(database), dump}));
}

// All of it, into a database "restored" that it makes.
inline void
restore_whole(const std::string &dump, const PgCluster &server)
{
    Db(server, "postgres").exec("create database restored");
    run_or_throw(Command({PgCluster::dump_program("pg_restore"), "--exit-on-error",
                          "--dbname=" + server.conninfo("restored"), dump}));
}

// The lines of the dump's table of contents: what makes the extension, and the rest.
inline void
split_contents(const std::string &dump, std::string *definitions, std::vector<std::string> *data)
{
    std::istringstream contents(
        run_or_throw(Command({PgCluster::dump_program("pg_restore"), "--list", dump})));
    std::string line;
    while (std::getline(contents, line))
        if (line.find("TABLE DATA outbox") != std::string::npos ||
            line.find("SEQUENCE SET outbox") != std::string::npos)
            data->push_back(line);
        else
            *definitions += line + "\n";
}

inline std::multiset<std::string>
arrived(const Consumer &consumer)
{
    std::multiset<std::string> ids;
    for (const Record &record : consumer.records())
        ids.insert(record.header("id").value_or(""));
    return ids;
}

inline std::string
status_of(Db &db, const std::string &id)
{
    return db.value("select string_agg(status, ' ') from outbox.event_status where id = $1", id);
}

// What a restore must end in, and that retrying the failed event sends its line on.
inline void
expect_settled(Db &db, const Source &source, Consumer &consumer)
{
    for (const std::string &id : source.unpublished)
        EXPECT_EQ(db.value("select outbox.wait_published($1, '30 s')", id), "t");
    consumer.read_for(kNothingComes);
    const std::multiset<std::string> before = arrived(consumer);
    for (const std::string &id : source.published)
    {
        EXPECT_EQ(before.count(id), 1U) << "it was published in the old database";
        EXPECT_EQ(status_of(db, id), "PUBLISHED");
    }
    for (const std::string &id : source.unpublished)
        EXPECT_EQ(before.count(id), 1U);
    // Once each: in the old database, where only the test calls them set aside.
    EXPECT_EQ(before.count(source.failed), 1U);
    EXPECT_EQ(before.count(source.waiting), 1U);
    EXPECT_EQ(before.count(source.behind), 0U) << "it overtook those before it";
    EXPECT_EQ(status_of(db, source.failed), "FAILED");
    EXPECT_EQ(status_of(db, source.waiting), "NEW");
    EXPECT_EQ(status_of(db, source.behind), "NEW");
    db.exec("select outbox.retry($1)", source.failed);
    EXPECT_TRUE(consumer.read_until(std::chrono::seconds(30), [&](const std::vector<Record> &)
                                    { return arrived(consumer).count(source.behind) == 1; }));
    Ids line;
    for (const Record &record : consumer.records())
        if (record.key == kBlocked)
            line.push_back(record.header("id").value_or(""));
    EXPECT_EQ(line,
              Ids({source.failed, source.waiting, source.failed, source.waiting, source.behind}));
    EXPECT_EQ(db.value("select outbox.drain('20 s')"), "t");
}

// Data only, as docs/recovery.md says, but for what is left out.
inline void
merge_into(const Source &source, const TestDatabase &target, const std::string &left_out)
{
    const std::string plain = run_dir() / unique_name("dump.");
    run_or_throw(Command({PgCluster::dump_program("pg_dump"), "--data-only", "--extension=outbox",
                          "--exclude-table-data=" + left_out, "--file=" + plain,
                          "--dbname=" + source.server.conninfo(source.database.name())}));
    run_or_throw(Command({PgCluster::dump_program("psql"), "--no-psqlrc", "--quiet",
                          "--set=ON_ERROR_STOP=1", "--single-transaction", "--file=" + plain,
                          "--dbname=" + cluster().conninfo(target.name())}));
}

} // namespace outbox::test
