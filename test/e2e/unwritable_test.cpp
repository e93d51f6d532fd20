// What keeps the relay from reading or writing its own tables: it waits, says for what, and repeats
// nothing.
#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>

#include <sys/mount.h>

#include "watched_relay.h"

using namespace outbox::test;
using Scene = WatchedRelay;

// As with a full disk, on which a tick needs a new page and the position does not.
TEST(Unwritable, ATickThatCannotBeWrittenKeepsNothingFromBeingPublished)
{
    Scene scene;
    scene.db->exec("alter table outbox.ticks add constraint full_disk check (false) not valid");
    for (int i = 0; i < 3; ++i)
    {
        scene.emit(10);
        EXPECT_EQ(scene.db->value("select outbox.drain('20 s')"), "t");
        EXPECT_TRUE(scene.says("full_disk")) << scene.last_error();
    }
    EXPECT_EQ(scene.database.relay_pid(), scene.relay);
    scene.db->exec("alter table outbox.ticks drop constraint full_disk");
    scene.expect_each_once();
}

TEST(Unwritable, APositionThatCannotBeWrittenRepeatsNothingAndIsWrittenWhenItCan)
{
    Scene scene;
    scene.db->exec("alter table outbox.relay_position add constraint full_disk check (false) "
                   "not valid");
    scene.emit(20);
    Consumer consumer(kafka().bootstrap(), {scene.database.topic()});
    EXPECT_TRUE(consumer.read_count(30, std::chrono::seconds(20))) << "it may still be published";
    EXPECT_TRUE(scene.says("full_disk")) << scene.last_error();
    EXPECT_NE(scene.last_error().find("23514"), std::string::npos) << scene.last_error();
    scene.emit(10);
    EXPECT_TRUE(consumer.read_count(40, std::chrono::seconds(20)));
    EXPECT_EQ(scene.db->value("select outbox.drain('1 s')"), "f");
    EXPECT_EQ(scene.database.relay_pid(), scene.relay);
    scene.db->exec("alter table outbox.relay_position drop constraint full_disk");
    EXPECT_EQ(scene.db->value("select outbox.drain('60 s')"), "t");
    scene.expect_each_once();
}

// As beside an old snapshot, for which every version of its row has to stay.
TEST(Unwritable, APositionThatTakesLongToWriteIsWrittenRarely)
{
    constexpr auto kWatched = std::chrono::seconds(8);
    Scene scene;
    scene.db->exec("alter table outbox.relay_position add constraint slow "
                   "check (pg_sleep(0.3)::text is not null) not valid");
    Consumer consumer(kafka().bootstrap(), {scene.database.topic()});
    std::set<std::string> writes;
    const auto begun = std::chrono::steady_clock::now();
    for (size_t expected = 11; std::chrono::steady_clock::now() - begun < kWatched; ++expected)
    {
        scene.emit(1);
        ASSERT_TRUE(consumer.read_count(expected, std::chrono::seconds(20)));
        writes.insert(scene.db->value("select written_by from outbox.relay_position"));
    }
    EXPECT_LE(writes.size(), 5U) << "one in three seconds";
    scene.db->exec("alter table outbox.relay_position drop constraint slow");
    EXPECT_EQ(scene.db->value("select outbox.drain('60 s')"), "t");
    scene.expect_each_once();
}

// Without anybody the position would be written every five seconds and a half.
TEST(Unwritable, APositionThatTakesLongToWriteIsWrittenSoonerWhileASessionWaitsForIt)
{
    Scene scene;
    scene.db->exec("alter table outbox.relay_position add constraint slow "
                   "check (pg_sleep(0.5)::text is not null) not valid");
    const auto begun = Clock::now();
    for (int i = 0; i < 5; ++i)
        EXPECT_EQ(scene.db->value("select outbox.wait_published($1, '20 s')",
                                  scene.db->value("select outbox.emit($1, 'k', 'e', '{}')",
                                                  scene.database.type())),
                  "t");
    EXPECT_LT(since(begun), std::chrono::seconds(15));
    scene.db->exec("alter table outbox.relay_position drop constraint slow");
    EXPECT_EQ(scene.db->value("select outbox.drain('60 s')"), "t");
}

// When an old snapshot has gone the row stays at the end of what its versions took, and VACUUM
// cannot shorten that.
TEST(Unwritable, ThePositionIsFoundAtOnceWhereItsVersionsWere)
{
    Scene scene;
    Db holder = scene.database.connect();
    holder.exec("begin isolation level repeatable read; select count(*) from outbox.events");
    scene.db->exec("do $$ begin for i in 1..20000 loop update outbox.relay_position "
                   "set written_by = pg_current_xact_id(); end loop; end $$");
    holder.exec("commit");
    // Sooner or later, as other databases' snapshots count as well.
    ASSERT_TRUE(wait_until(std::chrono::seconds(30),
                           [&]
                           {
                               scene.db->exec("vacuum analyze outbox.relay_position");
                               return scene.db->value(
                                          "select relpages > 100 and reltuples between 0 and 5 "
                                          "from pg_class "
                                          "where oid = 'outbox.relay_position'::regclass") == "t";
                           }));
    const std::string plan =
        scene.db->value("explain (format json) select * from outbox.current_position");
    EXPECT_NE(plan.find("relay_position_database"), std::string::npos) << plan;
    // Nor does an idle relay read all of the table when it looks for a restored dump.
    std::string whole;
    long looks = 0;
    EXPECT_TRUE(wait_until(std::chrono::seconds(30),
                           [&]
                           {
                               const Result now = scene.db->exec(
                                   "select seq_scan, idx_scan from pg_stat_user_tables "
                                   "where relid = 'outbox.relay_position'::regclass");
                               if (now.text(0, 0) != whole)
                                   looks = std::stol(now.text(0, 1));
                               whole = now.text(0, 0);
                               return std::stol(now.text(0, 1)) >= looks + 5;
                           }));
    scene.emit(10);
    EXPECT_EQ(scene.db->value("select outbox.drain('60 s')"), "t");
}

namespace
{

// Good events, and one that the relay must set aside: its topic has no possible name, which the
// session that emitted it did not know.
struct Refusal
{
    explicit Refusal(Scene &all) : scene(all) {}

    std::string emit_bad(const std::string &key)
    {
        Db db = scene.database.connect();
        db.exec("set outbox.topic_template = 'anything'");
        return db.value("select outbox.emit('no topic', $1, 'e', '{}')", key);
    }

    // Events are emitted meanwhile: none comes twice, and the relay stays the same.
    void expect_wait()
    {
        scene.emit(20);
        EXPECT_FALSE(wait_until(Milliseconds(4000),
                                [&] { return scene.database.relay_pid() != scene.relay; }));
        scene.emit(10);
    }

    void expect_end(const std::string &bad, const std::string &later)
    {
        Consumer consumer(kafka().bootstrap(), {scene.database.topic()});
        EXPECT_TRUE(consumer.read_count(60, std::chrono::seconds(40))) << scene.last_error();
        consumer.read_for(Milliseconds(500));
        std::set<std::string> ids;
        for (const Record &record : consumer.records())
            EXPECT_TRUE(ids.insert(record.header("id").value_or("")).second) << "it came twice";
        EXPECT_EQ(ids.size(), 60U);
        for (const std::string &id : {bad, later})
            EXPECT_EQ(
                scene.db->value("select count(*) from outbox.deliveries where event_id = $1", id),
                "1");
        EXPECT_EQ(scene.database.relay_pid(), scene.relay);
    }

    Scene &scene;
};

} // namespace

TEST(Unwritable, AnEventThatCannotBeSetAsideEndsNothingAndRepeatsNothing)
{
    Scene scene;
    Refusal refusal(scene);
    scene.db->exec("alter table outbox.deliveries add constraint full_disk check (false) "
                   "not valid");
    scene.emit(20);
    const std::string bad = refusal.emit_bad("key");
    const std::string later = refusal.emit_bad("key");
    EXPECT_TRUE(scene.says("full_disk")) << scene.last_error();
    refusal.expect_wait();
    EXPECT_TRUE(scene.says("writing outbox.deliveries: ")) << scene.last_error();
    scene.db->exec("alter table outbox.deliveries drop constraint full_disk");
    refusal.expect_end(bad, later);
}

// As a dump may bring it.
TEST(Unwritable, TheHighestNumberOfAttemptsIsCountedNoFurther)
{
    Scene scene;
    Refusal refusal(scene);
    const std::string bad = refusal.emit_bad("key");
    const auto row = [&](const std::string &column)
    {
        return scene.db->value("select coalesce((select " + column +
                               "::text from outbox.deliveries where event_id = '" + bad +
                               "'), '')");
    };
    EXPECT_TRUE(wait_until(std::chrono::seconds(20), [&] { return row("state") == "RETRYING"; }));
    scene.db->exec("begin; update outbox.deliveries set attempts = 2147483647, "
                   "next_attempt_at = now(); select outbox.notify_relay(); commit");
    EXPECT_TRUE(wait_until(std::chrono::seconds(20), [&] { return row("state") == "FAILED"; }))
        << scene.last_error();
    EXPECT_EQ(row("attempts"), "2147483647");
    EXPECT_EQ(scene.database.relay_pid(), scene.relay);
}

namespace
{

// A file system of 4 MB, which only root can mount.
class SmallDisk
{
public:
    SmallDisk() : directory_(run_dir() / unique_name("disk."))
    {
        std::filesystem::create_directory(directory_);
        mounted_ = mount("tmpfs", directory_.c_str(), "tmpfs", 0, "size=4m") == 0;
        if (mounted_)
            give_to_server_user(directory_);
    }

    ~SmallDisk()
    {
        if (mounted_)
            (void) umount2(directory_.c_str(), MNT_DETACH);
    }

    bool mounted() const { return mounted_; }
    std::string path() const { return directory_.string(); }
    void fill() const
    {
        std::ofstream file(directory_ / "fill");
        const std::string block(65536, 'x');
        while (file.write(block.data(), static_cast<std::streamsize>(block.size())).flush())
        {
        }
    }
    void make_room() const { std::filesystem::remove(directory_ / "fill"); }

private:
    std::filesystem::path directory_;
    bool mounted_ = false;
};

} // namespace

TEST(Unwritable, OnAFullDiskTheRelayWaitsRepeatsNothingAndContinuesWhenThereIsRoom)
{
    const SmallDisk disk;
    if (!disk.mounted())
        GTEST_SKIP() << "no file system can be mounted here: run it as root";
    {
        Scene scene;
        Refusal refusal(scene);
        scene.db->exec("create tablespace small_disk location '" + disk.path() + "'");
        for (const char *table : {"deliveries", "ticks", "relay_position"})
            scene.db->exec(std::string("alter table outbox.") + table +
                           " set tablespace small_disk");
        scene.db->exec("truncate outbox.ticks");
        disk.fill();
        scene.emit(20);
        const std::string bad = refusal.emit_bad("key");
        const std::string later = refusal.emit_bad("key");
        EXPECT_TRUE(scene.says("writing outbox.deliveries: could not extend file"))
            << scene.last_error();
        EXPECT_TRUE(scene.says("SQLSTATE 53100")) << scene.last_error();
        refusal.expect_wait();
        disk.make_room();
        refusal.expect_end(bad, later);
        for (const char *table : {"deliveries", "ticks", "relay_position"})
            scene.db->exec(std::string("alter table outbox.") + table +
                           " set tablespace pg_default");
    }
    Db(cluster(), "postgres").exec("drop tablespace small_disk");
}

// A relay that an ERROR ends says which, also while the next one has not started, and the next one
// repeats nothing of what Kafka has.
TEST(Unwritable, AnErrorThatEndsTheRelayStaysInLastErrorAndRepeatsNothing)
{
    Scene scene;
    scene.emit(5);
    EXPECT_EQ(scene.db->value("select outbox.drain('20 s')"), "t");
    scene.db->exec("alter table outbox.deliveries rename column lane to elsewhere");
    scene.db->exec("begin; select outbox.notify_relay(); commit");
    scene.emit(5);
    EXPECT_TRUE(scene.says("d.lane")) << scene.last_error();
    EXPECT_NE(scene.last_error().find("SQLSTATE 42703"), std::string::npos) << scene.last_error();
    for (int i = 0; i < 30; ++i)
        EXPECT_NE(scene.last_error().find("d.lane"), std::string::npos) << "it comes and goes";
    scene.db->exec("alter table outbox.deliveries rename column elsewhere to lane");
    EXPECT_EQ(scene.db->value("select outbox.drain('60 s')"), "t");
    scene.expect_each_once();
}
