// What PostgreSQL does at the commit of a handler's work, though the commit is that of a batch.
#include <map>
#include <random>
#include <sstream>

#include "harness.h"
#include "support/seed.h"

using namespace outbox::test;

namespace
{

constexpr int kRecords = 60;

// What handlers do after their work, the parts of which are pending at the commit.
const std::vector<std::string> kSettings = with_other_settings(
    {"select 1", "select set_config('app.tenant', 'eight', false)",
     "create temp table gone (n int) on commit drop", "declare c cursor for select * from kept",
     "select pg_advisory_xact_lock(43)", "set local outbox.refuse_commit = off"});

// With these a batch is done again one by one.
const std::vector<std::string> kSeparating = {
    "select pg_advisory_lock(42)",
    "select pg_advisory_lock(42), pg_advisory_xact_lock(43)",
    "select pg_advisory_lock_shared(42), pg_advisory_xact_lock(43)",
    "savepoint work",
    "savepoint outbox_handler; insert into numbers values (1)",
    "insert into numbers values (1)", // a dead letter
    "set constraints all deferred",
    "select 1 / 0"};

constexpr const char *kTables =
    "create table acts (event_id uuid);"
    " create table numbers (n int unique deferrable initially deferred);"
    " insert into numbers values (1);"
    " create table fired (event_id uuid, state text); grant insert on fired to public;"
    " create function note_act() returns trigger language plpgsql as $$ begin"
    "  insert into public.fired values (new.event_id, concat_ws('|',"
    "   current_user like '%nobody', session_user like '%nobody', current_setting('search_path'),"
    "   nullif(current_setting('app.tenant', true), ''),"
    "   (select count(*) from pg_locks where locktype = 'advisory' and objid = 42)));"
    "  return null; end $$;"
    " create constraint trigger late after insert on acts deferrable initially deferred"
    "  for each row execute function note_act()";

std::string
lines_with(const std::string &log, const std::string &text)
{
    std::istringstream lines(log);
    std::string found;
    for (std::string line; std::getline(lines, line);)
        if (line.find(text) != std::string::npos)
            found += line + "\n";
    return found;
}

// All that somebody could see of the handlers, by event.
using Outcome = std::map<std::string, std::string>;

struct Batches
{
    Batches(std::mt19937 &random, const std::vector<std::string> &kinds)
    {
        role = scene.database.name() + "_nobody";
        scene.db.exec("create role " + role);
        scene.db.exec(kTables);
        for (int i = 0; i < kRecords; ++i)
        {
            std::string text = kinds[random() % kinds.size()];
            replace(text, "ROLE", role);
            scene.writer.send(scene.topic, "k", text, event_id(i), {}, 0);
        }
        scene.writer.flush();
    }
    ~Batches() { scene.db.exec("drop role " + role); }

    void handle(PGconn *transaction, const outbox::Record &record)
    {
        // If somebody else can have a lock, then the work of its last owner is to be seen, unless
        // it was taken back.
        unseen += locked_at >= 0 && record.offset == locked_at + 1 &&
                  scene.db.value("select pg_try_advisory_lock(42) and pg_advisory_unlock(42)"
                                 " and not exists (select from effects where event_id = '" +
                                 event_id(static_cast<int>(locked_at)) + "')") == "t";
        locked_at = -1;
        insert_effect(transaction, record);
        run_sql(transaction, "insert into acts values ('" + record.event_id + "')");
        // Of what others have left.
        run_sql(transaction, "delete from numbers a using numbers b where a.ctid > b.ctid");
        run_sql(transaction, "create temp table if not exists kept (n int) on commit delete rows;"
                             " insert into kept values (1)");
        found[record.event_id] =
            run_sql(transaction, "select concat_ws('|', (select count(*) from kept),"
                                 " to_regclass('pg_temp.gone') is null)");
        run_sql(transaction, *record.value);
        if (record.value->find("advisory_lock(42") != std::string::npos)
            locked_at = record.offset;
    }

    // Before run() of another consumer.
    Outcome consume(size_t batch)
    {
        scene.db.exec("truncate effects, fired, outbox.processed_events");
        found.clear();
        outbox::ConsumerOptions options = scene.options();
        options.batch = batch;
        options.max_attempts = 1;
        RunningConsumer consumer(options, [&](PGconn *transaction, const outbox::Record &record)
                                 { handle(transaction, record); });
        EXPECT_TRUE(scene.drained(options.consumer));
        consumer.finish();
        redone = lines_with(consumer.log(), "done again one by one");
        Outcome outcome;
        for (int i = 0; i < kRecords; ++i)
            outcome[event_id(i)] =
                found[event_id(i)] + " " +
                scene.db.value("select (select count(*) from effects where event_id = e) || ' ' ||"
                               " coalesce((select string_agg(state, ',') from fired"
                               " where event_id = e), 'nothing') from (values ('" +
                               event_id(i) + "'::uuid)) events (e)");
        return outcome;
    }

    Scene scene;
    std::string role;
    std::map<std::string, std::string> found;
    std::int64_t locked_at = -1;
    int unseen = 0;
    std::string redone; // lines of the log
};

void
expect_as_alone(Batches &batches, size_t batch, const Outcome &alone)
{
    const Outcome together = batches.consume(batch);
    for (const auto &[event, outcome] : alone)
        EXPECT_EQ(together.at(event), outcome) << event << " in a batch of " << batch;
}

} // namespace

TEST(BatchCommit, DeferredTriggersAndTemporaryTablesAreThoseOfEachHandlerInTheSameBatch)
{
    std::mt19937 random(choose_seed());
    Batches batches(random, kSettings);
    const Outcome alone = batches.consume(1);
    expect_as_alone(batches, 2 + random() % kRecords, alone);
    EXPECT_EQ(batches.redone, "");
}

TEST(BatchCommit, WhatOnlyACommitCanEndIsDoneOneByOne)
{
    std::mt19937 random(choose_seed());
    std::vector<std::string> kinds = kSettings;
    kinds.insert(kinds.end(), kSeparating.begin(), kSeparating.end());
    Batches batches(random, kinds);
    const Outcome alone = batches.consume(1);
    expect_as_alone(batches, 2 + random() % 20, alone);
    EXPECT_EQ(batches.unseen, 0);
}
