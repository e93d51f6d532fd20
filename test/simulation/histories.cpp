// From a seed to a history. Each history has some kinds of trouble and not others: all of them at
// once would hide each other (Groce and others, "Swarm Testing", 2012).
#include "act_writer.h"
#include "subscription_histories.h"

#include <algorithm>

namespace outbox::sim
{

namespace
{

class Writer : ActWriter
{
public:
    Writer(History &history, std::uint64_t seed)
        : ActWriter(history, Random(seed * 2 + 1)), clock_random_(~seed)
    {
        history_.seed = history_.lanes = seed;
    }

    void write()
    {
        history_.types = static_cast<int>(random_.between(1, 4));
        history_.active = random_.between(2, 15) * kSecond;
        history_.max_events = static_cast<int>(random_.percent(50) ? random_.between(1, 12)
                                                                   : random_.between(20, 200));
        history_.batch_records = static_cast<int>(random_.between(1, 20));
        history_.max_attempts = static_cast<int>(random_.between(1, 5));
        history_.block = !random_.percent(20);
        history_.backoff_initial_ms = random_.between(10, 500);
        history_.backoff_max_ms = history_.backoff_initial_ms + random_.between(0, 1500);
        history_.max_in_flight = random_.percent(10) ? static_cast<int>(random_.between(2, 5)) : 1;
        keys_ = static_cast<int>(random_.between(1, 6));
        if (history_.seed % 8 == 7)
            write_crowd();
        else
        {
            write_sessions();
            for (int i = static_cast<int>(random_.between(0, 4)); i > 0; i--)
                write_trouble();
        }
        set_clock();
        if (clock_random_.percent(10))
            act(clock_random_.below(history_.active), Kind::slow_disk,
                static_cast<int>(clock_random_.between(50, 2000)));
        history_.new_lanes = clock_random_.percent(20);
        fill_disk();
        look_at_rows_slowly();
        if (random_.percent(25))
            history_.max_bytes = number(1000, 20000);
        if (clock_random_.percent(25))
            send_to_endpoint();
        leave_unusable();
        add_subscriptions(history_);
        std::stable_sort(history_.acts.begin(), history_.acts.end(),
                         [](const Act &a, const Act &b) { return a.at < b.at; });
    }

private:
    // Few keys, each of which has events that wait for their key, their partition and their topic
    // at the same time.
    void write_crowd()
    {
        history_.types = number(1, 2);
        keys_ = number(1, 3);
        history_.max_events = number(10, 120);
        history_.backoff_initial_ms = random_.between(10, 100);
        history_.backoff_max_ms = history_.backoff_initial_ms + random_.between(0, 300);
        write_sessions();
        faults_ = number(3, 25);
        for (int i = number(5, 20); i > 0; i--)
            write_session(500 + i, moment());
        repair();
        for (int i = number(2, 4); i > 0; i--)
            topics();
        for (int i = number(1, 3); i > 0; i--)
            leaders();
        for (int i = number(0, 2); i > 0; i--)
            operate(6, 2 * kSecond);
        for (int i = number(0, 2); i > 0; i--)
            write_trouble();
    }

    void write_sessions()
    {
        faults_ = random_.percent(30) ? number(1, 20) : 0;
        large_ = random_.percent(15) ? number(5, 40) : 0;
        async_ = random_.percent(30) ? number(20, 100) : 0;
        if (faults_ > 0 && random_.percent(50))
            repair();
        const bool bursts = random_.percent(40);
        const int sessions = number(3, 45);
        Time at = moment();
        for (int session = 0; session < sessions; session++)
        {
            at = bursts && !random_.percent(20)
                     ? std::min(at + random_.below(3 * kMs), history_.active)
                     : moment();
            write_session(session, at);
        }
    }

    void emit(Time at, int session)
    {
        const int fault = random_.percent(faults_)
                              ? (random_.percent(75) ? Act::invalid : Act::unreadable)
                              : Act::fine;
        act(at, Kind::emit, session, topic(), number(0, keys_ - 1), fault,
            random_.percent(large_) ? number(500, 3000) : number(10, 200));
    }

    void write_session(int session, Time at)
    {
        // Some last long, so that ids, numbers and commits come in different orders.
        const Time step = random_.percent(25) ? random_.below(2 * kSecond) : random_.below(kMs);
        act(at, Kind::begin, session);
        const int events = random_.percent(10) ? number(10, 30) : number(1, 4);
        for (int i = 0; i < events; i++)
        {
            emit(at += random_.below(step + 1), session);
            if (!random_.percent(8))
                continue;
            act(at += random_.below(step + 1), Kind::savepoint, session);
            emit(at, session);
            if (random_.percent(60))
                act(at += random_.below(step + 1), Kind::undo, session);
        }
        at += random_.below(step + 1);
        if (random_.percent(8))
        {
            act(at, Kind::prepare, session);
            at += random_.below(3 * kSecond);
        }
        if (random_.percent(8))
            act(at, Kind::rollback, session);
        else
            act(at, Kind::commit, session, random_.percent(async_) ? 0 : 1);
    }

    void repair()
    {
        for (int i = number(1, 3); i > 0; i--)
            act(moment(), Kind::repair);
    }

    void write_trouble()
    {
        switch (random_.below(11))
        {
        case 0:
            return brokers();
        case 1:
            return leaders();
        case 2:
            return topics();
        case 3:
            return limits();
        case 4:
            return slowness();
        case 5:
            return ends();
        case 6:
            return database();
        case 7:
            return operate(6, 2 * kSecond);
        case 8:
            return routes();
        case 9:
            return ring();
        default:
            return replicas();
        }
    }

    void brokers()
    {
        for (int i = number(1, 4); i > 0; i--)
        {
            const Time at = moment();
            const int broker = number(0, 2);
            act(at, random_.percent(60) ? Kind::broker_hangs : Kind::broker_down, broker);
            // A controller moves what it has led, sometimes.
            if (random_.percent(60))
                for (int topic = 0; topic < history_.types; topic++)
                    for (int partition = 0; partition < 2; partition++)
                        act(at + random_.below(3 * kSecond), Kind::lead, topic, partition,
                            random_.percent(80) ? number(0, 2) : -1);
            act(at + random_.below(random_.percent(50) ? 2 * kSecond : 12 * kSecond),
                Kind::broker_up, broker);
        }
    }

    void leaders()
    {
        for (int i = number(1, 8); i > 0; i--)
            act(moment(), Kind::lead, topic(), number(0, 1),
                random_.percent(70) ? number(0, 2) : -1);
    }

    void topics()
    {
        for (int i = number(1, 4); i > 0; i--)
        {
            const Time at = random_.percent(30) ? 0 : moment();
            const int which = topic();
            if (random_.percent(50))
                act(at, Kind::topic_missing, which);
            else
                act(at, Kind::topic_forbidden, which, number(0, 1));
            act(at + random_.below(6 * kSecond), Kind::topic_fine, which);
        }
    }

    void limits()
    {
        for (int i = number(1, 3); i > 0; i--)
            act(random_.percent(50) ? 0 : moment(), Kind::topic_limit, topic(), number(150, 2500));
        if (random_.percent(50))
            act(moment(), Kind::topic_strict, topic(), number(0, 1));
    }

    void slowness()
    {
        for (int i = number(1, 4); i > 0; i--)
            act(moment(), Kind::broker_slow, number(0, 2), number(0, 1500));
        for (int i = number(0, 4); i > 0; i--)
            act(moment(), Kind::lose_answers, number(0, 2), number(1, 3));
        if (random_.percent(30))
            act(moment(), Kind::slow_machine, number(1, 3000));
    }

    // Numbers of its own: the rest of a history is the same with it and without.
    void set_clock()
    {
        constexpr int kBy[] = {1, 3600, 10 * 366 * 86400};
        if (!clock_random_.percent(20))
            return;
        for (std::int64_t i = clock_random_.between(1, 4); i > 0; i--)
        {
            const int by = kBy[clock_random_.below(3)];
            act(clock_random_.below(history_.active), Kind::set_clock,
                clock_random_.percent(50) ? by : -by);
        }
    }

    // For a while, and not only for some statements. The same.
    void fill_disk()
    {
        for (Act &act : history_.acts)
            if (act.kind == Kind::no_space && clock_random_.percent(40))
                act.b = static_cast<int>(clock_random_.between(500, 6000));
    }

    // When routes change, and at a start. With numbers of its own, too.
    void look_at_rows_slowly()
    {
        if (clock_random_.percent(60))
            history_.rows_at_once = static_cast<int>(clock_random_.between(1, 6));
        if (!clock_random_.percent(15))
            return;
        const Time at = clock_random_.below(history_.active);
        act(at, Kind::slow_disk, static_cast<int>(clock_random_.between(500, 2000)));
        act(at + clock_random_.below(4 * kSecond), Kind::slow_disk, 0);
    }

    // What befalls a broker befalls the endpoint; more of its records are refused.
    void send_to_endpoint()
    {
        history_.endpoint = true;
        history_.max_in_flight = 1;
        if (clock_random_.percent(30))
            history_.sink_dies = static_cast<int>(clock_random_.between(1, 50));
        const std::int64_t faults = clock_random_.percent(60) ? clock_random_.between(1, 25) : 0;
        for (Act &act : history_.acts)
            if (act.kind == Kind::emit && act.d == Act::fine && clock_random_.percent(faults))
                act.d = Act::invalid;
        ask_never_to_be_called();
    }

    // For a while; and an operator resumes before that is over, or behind it.
    void ask_never_to_be_called()
    {
        if (!clock_random_.percent(20))
            return;
        for (std::int64_t i = clock_random_.between(1, 3); i > 0; i--)
        {
            const Time at = clock_random_.below(history_.active);
            act(at, Kind::wants_no_more, 1);
            act(at + clock_random_.below(4 * kSecond), Kind::wants_no_more, 0);
            act(at + clock_random_.below(5 * kSecond), Kind::resume);
        }
    }

    // For a while, from the beginning sometimes. The same.
    void leave_unusable()
    {
        if (!clock_random_.percent(10))
            return;
        for (std::int64_t i = clock_random_.between(1, 2); i > 0; i--)
        {
            const Time at = clock_random_.percent(30) ? 0 : clock_random_.below(history_.active);
            act(at, Kind::unusable, 1);
            if (clock_random_.percent(50))
                act(at + clock_random_.below(kSecond), Kind::restart);
            act(at + clock_random_.below(5 * kSecond), Kind::unusable, 0);
        }
    }

    void ends()
    {
        for (int i = number(1, 4); i > 0; i--)
            switch (random_.below(3))
            {
            case 0:
                act(moment(), Kind::crash);
                break;
            case 1:
                act(moment(), Kind::kill, number(0, 60));
                break;
            default:
                act(moment(), Kind::restart);
                break;
            }
    }

    void database()
    {
        for (int i = number(1, 3); i > 0; i--)
        {
            act(moment(), Kind::lock, number(0, 3), number(1, 3000));
            if (random_.percent(50))
                act(moment(), Kind::no_space, number(1, 4));
            if (random_.percent(30))
            {
                const Time at = moment();
                act(at, Kind::standby, 1);
                act(at + random_.below(2 * kSecond), Kind::standby, 0);
            }
            act(moment(), Kind::flush_log);
        }
    }

    void routes()
    {
        for (int i = number(1, 3); i > 0; i--)
            if (random_.percent(75))
                act(moment(), Kind::route, topic(), topic());
            else
                act(moment(), Kind::blocking, topic(), number(0, 1));
    }

    void ring()
    {
        for (int i = number(2, 10); i > 0; i--)
            act(moment(), random_.percent(60) ? Kind::rotate : Kind::empty_slot);
    }

    void replicas()
    {
        for (int i = number(1, 3); i > 0; i--)
        {
            const Time at = moment();
            const int which = topic();
            const int partition = number(0, 1);
            act(at, Kind::short_replicas, which, partition, number(0, 1));
            act(at + random_.below(4 * kSecond), Kind::short_replicas, which, partition, 2);
        }
    }

    Random clock_random_;
    int keys_ = 1;
    int faults_ = 0; // in 100 events
    int large_ = 0;
    int async_ = 0;
};

} // namespace

History
make_history(std::uint64_t seed)
{
    History history;
    Writer(history, seed).write();
    return history;
}

} // namespace outbox::sim
