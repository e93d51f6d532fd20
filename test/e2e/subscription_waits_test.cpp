// Who waits for a subscription that is detached or dropped meanwhile.
#include <thread>

#include "subscription_scene.h"

using namespace outbox::test;

namespace
{

// A session that waits for something, and what it was told in the end.
class Waiter
{
public:
    Waiter(Scene &scene, const std::string &query)
        : thread_([this, query, db = scene.database.connect()]() mutable { ask(db, query); })
    {
        EXPECT_TRUE(wait_until(kLimit,
                               [&]
                               {
                                   return scene.db.value("select count(*) from pg_stat_activity "
                                                         "where query = $1 and wait_event is not "
                                                         "null and state = 'active'",
                                                         query) == "1";
                               }));
    }
    ~Waiter() { (void) answer(); }
    Waiter(const Waiter &) = delete;
    Waiter &operator=(const Waiter &) = delete;

    const std::string &answer()
    {
        if (thread_.joinable())
            thread_.join();
        return answer_;
    }

private:
    void ask(Db &db, const std::string &query)
    {
        try
        {
            db.exec("set statement_timeout = '20 s'");
            answer_ = db.value(query);
        }
        catch (const std::exception &error)
        {
            answer_ = error.what();
        }
    }

    std::string answer_;
    std::thread thread_;
};

} // namespace

// It passes what it gives up, which is not to look as if it had been sent.
TEST(SubscriptionWaits, ADrainOfDefaultThatWaitsFailsWhenItIsDetached)
{
    for (const std::string arguments : {"'30 s', 'default'", "'30 s'"})
    {
        NoKafka no;
        Scene &scene = no.scene;
        ASSERT_TRUE(scene.database.reaches_state("not_configured"));
        (void) scene.emit();
        Waiter waits(scene, "select outbox.drain(" + arguments + ")");
        EXPECT_EQ(scene.db.value("select outbox.detach_subscription('default')"), "1");
        EXPECT_NE(waits.answer().find("subscription \"default\" is detached"), std::string::npos)
            << waits.answer();
    }
}

// It would wait in vain.
TEST(SubscriptionWaits, WhoWaitsForOneThatIsDetachedOrDroppedIsToldSo)
{
    const std::string by_name[] = {"is detached", "there is no subscription \"other\""};
    const std::string change[] = {"detach", "drop"};
    for (int i = 0; i < 2; i++)
    {
        Scene scene(cluster());
        scene.create("other", "", "127.0.0.1:1");
        const std::string event = scene.emit();
        Waiter all(scene, "select outbox.drain('1 h')");
        Waiter one(scene, "select outbox.drain('1 h', 'other')");
        Waiter published(scene, "select outbox.wait_published('" + event + "', '1 h', 'other')");
        scene.db.exec("select outbox." + change[i] + "_subscription('other')");
        for (Waiter *waiter : {&all, &one})
            EXPECT_NE(waiter->answer().find(by_name[i]), std::string::npos) << waiter->answer();
        const std::string of_event = i == 0 ? "does not send event" : by_name[i];
        EXPECT_NE(published.answer().find(of_event), std::string::npos) << published.answer();
    }
}

// What it has set aside stays so, and is not sent either.
TEST(SubscriptionWaits, WhoWaitsForAnEventThatIsSetAsideIsToldSo)
{
    Scene scene(cluster());
    scene.create("other", "", "127.0.0.1:1");
    const std::string event = scene.emit();
    scene.db.exec("insert into outbox.deliveries (seq, xid, slot, event_id, lane, topic, "
                  "partition_key, state, blocking, attempts, failed_at, last_error, subscription) "
                  "select e.seq, e.xid, e.slot, e.id, 1, 't', 'k', 'RETRYING', true, 1, now(), "
                  "'REFUSED: refused', 'other' from outbox.events e");
    Waiter waits(scene, "select outbox.wait_published('" + event + "', '1 h', 'other')");
    scene.db.exec("select outbox.detach_subscription('other')");
    EXPECT_NE(waits.answer().find("is detached"), std::string::npos) << waits.answer();
}
