#include "outage_story.h"

#include <iterator>
#include <map>

#include <fmt/format.h>

#include "interrupt.h"

namespace outbox::demo
{

using test::Record;

namespace
{

constexpr auto kNoticedLimit = std::chrono::seconds(30);

// What happens to each order while Kafka is away.
constexpr const char *kHistory[] = {"order.created", "order.paid", "order.shipped"};

constexpr const char *kStatus =
    "select state, backlog_events, last_error from outbox.relay_status;";

double
milliseconds_since(std::chrono::steady_clock::time_point then)
{
    const std::chrono::duration<double, std::milli> passed =
        std::chrono::steady_clock::now() - then;
    return passed.count();
}

} // namespace

OutageStory::OutageStory(const Screen &screen, test::Db &db, test::Consumer &consumer,
                         Destination &kafka)
    : Story(screen, db, consumer, kafka.topic()), kafka_(kafka)
{
}

void
OutageStory::tell()
{
    commit_with_kafka();
    take_kafka_away();
    commit_without_kafka();
    show_what_is_kept();
    bring_kafka_back();
    check_what_arrived();
    screen_.proof("each order's events in their order: created, paid, shipped");
}

void
OutageStory::commit_with_kafka()
{
    screen_.heading("1. An order while Kafka is there");
    run("create table orders (id bigint primary key, customer text, total numeric);");
    screen_.blank();
    run("begin;");
    run("insert into orders values (1, 'Ada', 25.00);");
    const std::string id =
        emit("select outbox.emit('order', '1', 'order.created', '{\"id\": 1}');");
    commit();
    const Record record = receive({id}).front();
    screen_.blank();
    screen_.short_record(record, after_commit(record));
}

void
OutageStory::take_kafka_away()
{
    screen_.heading("2. The broker is killed");
    kafka_.take_away();
    screen_.text("  Every connection to " + kafka_.bootstrap() +
                 " is closed, and new ones are refused.");
}

void
OutageStory::commit_without_kafka()
{
    screen_.heading("3. The shop goes on: its transactions do not wait for Kafka");
    run("insert into orders select n, 'customer ' || n, 10 * n from generate_series(2, 4) n;");
    for (const char *event_type : kHistory)
        emit_for_each(event_type);
}

void
OutageStory::emit_for_each(const std::string &event_type)
{
    check_interrupt();
    const std::string sql =
        fmt::format("select outbox.emit('order', id::text, '{}',\n"
                    "                   jsonb_build_object('id', id)) from orders where id > 1;",
                    event_type);
    const auto begun = std::chrono::steady_clock::now();
    const std::vector<std::string> ids = db_.column(sql);
    screen_.sql(sql, fmt::format("{} events, committed in {}", ids.size(),
                                 in_milliseconds(milliseconds_since(begun))));
    kept_.insert(kept_.end(), ids.begin(), ids.end());
}

void
OutageStory::show_what_is_kept()
{
    screen_.heading("4. The events are kept, and the relay says why");
    test::Result status = db_.exec(kStatus);
    const bool noticed =
        test::wait_until(kNoticedLimit,
                         [&]
                         {
                             check_interrupt();
                             status = db_.exec(kStatus);
                             return status.text(0, 0) == "backing_off" &&
                                    status.text(0, 1) == std::to_string(kept_.size());
                         });
    screen_.sql(kStatus);
    screen_.item("state", status.text(0, 0));
    screen_.item("backlog", status.text(0, 1) + " events");
    screen_.item("last_error", status.field(0, 2).value_or("(none)"));
    if (!noticed)
        throw BrokenPromise(
            fmt::format("the relay does not say that {} events wait for Kafka", kept_.size()));
}

void
OutageStory::bring_kafka_back()
{
    screen_.heading("5. The broker is back");
    const auto back = std::chrono::system_clock::now();
    kafka_.bring_back();
    const std::vector<Record> records = receive(kept_);
    for (const Record &record : records)
    {
        const std::chrono::duration<double, std::milli> passed = record.received - back;
        screen_.short_record(record,
                             in_milliseconds(passed.count()) + " after the broker was back");
    }
    check_order(records);
}

void
OutageStory::check_order(const std::vector<Record> &records) const
{
    std::map<std::string, size_t> come; // key -> how many of its events
    for (const Record &record : records)
    {
        const std::string key = record.key.value_or("");
        const size_t place = come[key]++;
        if (place >= std::size(kHistory) || record.header("event_type") != kHistory[place])
            throw BrokenPromise("the events of order " + key + " did not arrive in order");
    }
}

} // namespace outbox::demo
