#include "subscription_histories.h"

#include "act_writer.h"

#include <algorithm>

namespace outbox::sim
{

namespace
{

constexpr std::uint64_t kStream = 0x5ca1ab1e0ddba11U; // random numbers of its own

class SubscriptionWriter : ActWriter
{
public:
    explicit SubscriptionWriter(History &history)
        : ActWriter(history, Random(history.seed ^ kStream))
    {
    }

    void write()
    {
        if (!random_.percent(25))
            return;
        history_.active = std::max(history_.active, random_.between(6, 15) * kSecond);
        const int count = random_.percent(60) ? 1 : number(2, 3);
        for (int i = 1; i <= count; i++)
            write_subscription(i);
        for (int i = number(1, 3); i > 0; i--)
            write_trouble(number(1, count));
        for (int i = random_.percent(40) ? number(1, 3) : 0; i > 0; i--)
            write_replay(number(0, count));
        for (int i = number(3, 14); i > 0; i--)
            act(moment(), Kind::rotate);
        for (int i = number(2, 10); i > 0; i--)
            write_session(moment(), random_.below(random_.percent(70) ? 5 * kMs : 2 * kSecond));
    }

private:
    int some_types() { return random_.percent(35) ? 0xff : number(1, (1 << history_.types) - 1); }

    void write_subscription(int subscription)
    {
        add_settings();
        subscription_ = subscription;
        const bool lags = history_.others.back().max_lag > 0;
        const Time at = random_.percent(40) ? random_.below(100 * kMs) : moment() / 2;
        create(at);
        for (int i = number(0, 3); i > 0; i--)
            change(at + random_.below(history_.active - at), Kind::alter, some_types());
        if (random_.percent(15))
            drop(at + random_.below(history_.active - at));
        if (lags)
            lag(at);
        subscription_ = 0;
    }

    void add_settings()
    {
        Settings settings = history_;
        settings.endpoint = random_.percent(30);
        settings.max_in_flight = !settings.endpoint && random_.percent(10) ? number(2, 5) : 1;
        settings.sink_dies = settings.endpoint && random_.percent(30) ? number(1, 50) : 0;
        settings.max_events = random_.percent(40) ? number(2, 12) : number(20, 200);
        settings.batch_records = number(1, 20);
        settings.max_attempts = number(1, 5);
        settings.block = !random_.percent(20);
        settings.backoff_initial_ms = random_.between(10, 500);
        settings.backoff_max_ms = settings.backoff_initial_ms + random_.between(0, 1500);
        if (random_.percent(50))
            settings.max_lag = random_.between(500, 2500) * kMs;
        history_.others.push_back(settings);
    }

    // A transaction that is open around the change, sometimes.
    void change(Time at, Kind kind, int a = 0, int b = 0, bool commits = true)
    {
        const Time open = random_.percent(60) ? random_.below(3 * kMs) : random_.below(kSecond);
        const int c = kind == Kind::create && random_.percent(20) ? 1 : 0;
        act(at, kind, a, b, c);
        act(at + open, Kind::end_change, commits ? 1 : 0);
        if (random_.percent(50))
            write_session(std::max<Time>(0, at - random_.below(20 * kMs)), open + 40 * kMs);
        if (random_.percent(50))
            write_session(at + random_.below(open + 1), random_.below(open + 1));
    }

    void create(Time at)
    {
        if (random_.percent(10))
            change(at / 2, Kind::create, some_types(), number(0, 1), false);
        change(at, Kind::create, some_types(), number(0, 1));
    }

    void drop(Time at)
    {
        change(at, Kind::drop, 0, 0, !random_.percent(10));
        if (random_.percent(60))
            create(at + kSecond + random_.below(2 * kSecond));
    }

    // Long enough to be let go of, and attached again.
    void lag(Time from)
    {
        for (int i = number(1, 2); i > 0; i--)
        {
            const Time at = from + random_.below(history_.active - from);
            const Time until = at + random_.between(2, 8) * kSecond;
            if (random_.percent(50))
            {
                act(at, Kind::pause);
                act(until, Kind::resume);
            }
            else
                for (int broker = 0; broker < 3; broker++)
                {
                    act(at, Kind::broker_down, broker);
                    act(until, Kind::broker_up, broker);
                }
            for (int j = number(2, 6); j > 0; j--)
            {
                write_session(at + random_.below(until - at), random_.below(100 * kMs));
                act(at + random_.below(until - at), Kind::rotate);
            }
            if (random_.percent(80))
                change(at + random_.below(until + 2 * kSecond - at), Kind::attach, number(0, 1));
            if (random_.percent(30)) // while it may be detached
                change(at + random_.below(until - at), Kind::alter, some_types());
        }
    }

    void write_replay(int subscription)
    {
        subscription_ = subscription;
        const Time at = moment();
        act(at, Kind::replay, random_.percent(50) ? -1 : topic(), number(1, 100), number(10, 1000));
        if (random_.percent(20))
            act(at + random_.below(kSecond), Kind::cancel_replay);
        subscription_ = 0;
    }

    void write_session(Time at, Time lasts)
    {
        const int subscription = subscription_;
        const int session = 600 + sessions_++ % 400;
        subscription_ = 0;
        act(at, Kind::begin, session);
        for (int i = number(1, 3); i > 0; i--)
        {
            act(at, Kind::emit, session, topic(), number(0, 3));
            history_.acts.back().e = number(10, 200);
        }
        act(at + lasts, random_.percent(8) ? Kind::rollback : Kind::commit, session, 1);
        subscription_ = subscription;
    }

    void write_trouble(int subscription)
    {
        subscription_ = subscription;
        switch (random_.below(7))
        {
        case 0:
            brokers();
            break;
        case 1:
            topics();
            break;
        case 2:
            slowness();
            break;
        case 3:
            ends();
            break;
        case 4:
            operate(4, 3 * kSecond);
            break;
        case 5:
            limits();
            break;
        default:
            // Records that are no good to others are good to this one.
            for (int which = 0; which < history_.types; which++)
                act(0, Kind::topic_strict, which, 0);
            break;
        }
        subscription_ = 0;
    }

    void brokers()
    {
        const Time at = moment();
        const Time lasts = random_.below(random_.percent(50) ? 2 * kSecond : 10 * kSecond);
        const Kind kind = random_.percent(60) ? Kind::broker_hangs : Kind::broker_down;
        const bool all = random_.percent(50);
        for (int broker = all ? 0 : number(0, 2), last = all ? 2 : broker; broker <= last; broker++)
        {
            act(at, kind, broker);
            act(at + lasts, Kind::broker_up, broker);
        }
        for (int i = number(0, 4); i > 0; i--)
            act(moment(), Kind::lead, topic(), number(0, 1),
                random_.percent(80) ? number(0, 2) : -1);
    }

    void topics()
    {
        for (int i = number(1, 2); i > 0; i--)
        {
            const Time at = moment();
            const int which = topic();
            act(at, random_.percent(50) ? Kind::topic_missing : Kind::topic_forbidden, which);
            act(at + random_.below(5 * kSecond), Kind::topic_fine, which);
        }
    }

    void slowness()
    {
        for (int i = number(1, 3); i > 0; i--)
            act(moment(), Kind::broker_slow, number(0, 2), number(0, 1500));
        for (int i = number(0, 3); i > 0; i--)
            act(moment(), Kind::lose_answers, number(0, 2), number(1, 3));
    }

    void ends()
    {
        for (int i = number(1, 3); i > 0; i--)
            if (random_.percent(50))
                act(moment(), Kind::kill, number(0, 60));
            else
                act(moment(), Kind::restart);
        if (random_.percent(30))
            act(moment(), Kind::no_space, number(1, 4));
    }

    void limits()
    {
        act(moment(), Kind::topic_limit, topic(), number(150, 2500));
        if (random_.percent(50))
            act(moment(), Kind::topic_strict, topic(), number(0, 1));
    }

    int sessions_ = 0;
};

} // namespace

void
add_subscriptions(History &history)
{
    SubscriptionWriter(history).write();
}

} // namespace outbox::sim
