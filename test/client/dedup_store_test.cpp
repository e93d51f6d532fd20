// Dedup stores of the application's own that share the handler's transaction.
#include <atomic>

#include "harness.h"

using namespace outbox::test;
using outbox::Claim;

namespace
{

// A row for each event, and a lock that it does not wait for.
class ImpatientStore : public outbox::DedupStore
{
public:
    // With `many` it asks for all of a batch in one statement.
    explicit ImpatientStore(bool many) : many_(many) {}

    bool transactional() const noexcept override { return true; }
    Claim claim(PGconn *transaction, const std::string & /*consumer*/,
                const std::string &event_id) override
    {
        if (run_sql(transaction, "select pg_try_advisory_xact_lock(hashtextextended('" + event_id +
                                     "', 0))") == "f")
        {
            ++busy;
            return Claim::busy;
        }
        return insert(transaction, event_id) ? Claim::first : Claim::repeated;
    }
    std::vector<std::string> claim_many(PGconn *transaction, const std::string &consumer,
                                        const std::vector<std::string> &event_ids) override
    {
        if (!many_)
            return DedupStore::claim_many(transaction, consumer, event_ids);
        std::vector<std::string> first;
        for (const std::string &id : event_ids)
            if (run_sql(transaction, "select pg_try_advisory_xact_lock(hashtextextended('" + id +
                                         "', 0))") == "t" &&
                insert(transaction, id))
                first.push_back(id);
        return first;
    }

    std::atomic<int> busy{0};

private:
    static bool insert(PGconn *transaction, const std::string &event_id)
    {
        return run_sql(transaction, "with added as (insert into marks values ('" + event_id +
                                        "') on conflict do nothing returning 1)"
                                        " select count(*) from added") == "1";
    }

    const bool many_;
};

struct Case
{
    size_t batch;
    bool many;
    bool processed; // by the other one, which commits
    outbox::OffsetPolicy offsets;
};

void
expect_that_busy_is_asked_again(const Case &one)
{
    constexpr int kRecords = 5;
    Scene scene;
    number_effects(scene.db);
    scene.db.exec("create table marks (event_id uuid primary key)");
    Db other = scene.database.connect();
    other.exec("begin; select pg_advisory_xact_lock(hashtextextended('" + event_id(2) + "', 0))");
    for (int i = 0; i < kRecords; ++i)
        scene.writer.send(scene.topic, "k", "", event_id(i), {}, 0);
    scene.writer.send(scene.topic, "k", "", event_id(3), {}, 0); // it comes twice
    scene.writer.flush();
    outbox::ConsumerOptions options = scene.options();
    options.batch = one.batch;
    options.offsets = one.offsets;
    options.max_attempts = 1;
    const auto store = std::make_shared<ImpatientStore>(one.many);
    options.store = store;
    RunningConsumer consumer(options, &insert_effect);
    EXPECT_TRUE(wait_until(kSoon, [&] { return store->busy >= 3 && scene.effects() == 2; }));
    EXPECT_NE(group_lag(kafka().bootstrap(), options.consumer, scene.topic), 0);
    if (one.processed)
        other.exec("insert into marks values ('" + event_id(2) + "')");
    other.exec(one.processed ? "commit" : "rollback");
    EXPECT_TRUE(scene.drained(options.consumer));
    consumer.finish();
    EXPECT_EQ(scene.effects(), one.processed ? kRecords - 1 : kRecords);
    EXPECT_EQ(scene.events(), one.processed ? kRecords - 1 : kRecords);
    EXPECT_EQ(misplaced_effects(scene.db), 0);
    EXPECT_EQ(scene.db.value("select count(*) from marks"), std::to_string(kRecords));
    EXPECT_EQ(records_in(kafka().bootstrap(), scene.topic + ".dlq"), 0);
    EXPECT_FALSE(consumer.logged("attempt ")) << consumer.log();
}

} // namespace

TEST(DedupStore, AnEventThatItIsBusyWithIsAskedForAgainAndKeepsItsPlace)
{
    using outbox::OffsetPolicy;
    for (const Case &one :
         {Case{1, false, false, OffsetPolicy::kafka}, Case{1, false, true, OffsetPolicy::postgres},
          Case{10, false, false, OffsetPolicy::postgres},
          Case{10, true, false, OffsetPolicy::kafka}, Case{10, true, true, OffsetPolicy::kafka}})
    {
        SCOPED_TRACE("batch " + std::to_string(one.batch) + (one.many ? " many" : "") +
                     (one.processed ? " processed" : ""));
        expect_that_busy_is_asked_again(one);
    }
}
