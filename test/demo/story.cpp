#include "story.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "interrupt.h"

namespace outbox::demo
{

using test::Milliseconds;
using test::Record;

namespace
{

// The first event may have to wait for the topic to be made; those after it are a matter of
// milliseconds.
constexpr auto kArrivalLimit = std::chrono::seconds(30);

// How long something that must not come is listened for, after everything around it has come.
constexpr auto kSilence = Milliseconds(500);

// So many records the live view shows; a consumer that keeps all it read must not read forever.
constexpr size_t kMostShown = 10000;

bool
contains(const std::vector<std::string> &ids, const std::string &id)
{
    return std::find(ids.begin(), ids.end(), id) != ids.end();
}

std::string
id_of(const Record &record)
{
    return record.header("id").value_or("");
}

// The record's timestamp is when its event was emitted.
std::string
since_emitted(const Record &record)
{
    const std::chrono::duration<double, std::milli> received = record.received.time_since_epoch();
    return in_milliseconds(received.count() - static_cast<double>(record.timestamp_ms));
}

} // namespace

Story::Story(const Screen &screen, test::Db &db, test::Consumer &consumer, std::string topic)
    : screen_(screen), db_(db), consumer_(consumer), topic_(std::move(topic))
{
}

void
Story::tell()
{
    commit_an_order();
    roll_back_an_order();
    emit_a_batch();
    follow_one_order();
    ask_the_database();
    check_what_arrived();
}

void
Story::run(const std::string &sql)
{
    check_interrupt();
    screen_.sql(sql);
    db_.exec(sql);
}

std::string
Story::emit(const std::string &sql)
{
    check_interrupt();
    std::string id = db_.value(sql);
    screen_.sql(sql, id);
    return id;
}

std::vector<std::string>
Story::emit_and_commit(const std::string &sql)
{
    check_interrupt();
    committed_ = std::chrono::system_clock::now();
    std::vector<std::string> ids = db_.column(sql);
    screen_.sql(sql, fmt::format("{} events", ids.size()));
    return ids;
}

void
Story::commit()
{
    // Before, not after: the event may arrive before the server's answer does.
    committed_ = std::chrono::system_clock::now();
    run("commit;");
}

std::string
Story::after_commit(const Record &record) const
{
    const std::chrono::duration<double, std::milli> passed = record.received - committed_;
    return in_milliseconds(passed.count());
}

std::vector<Record>
Story::receive(const std::vector<std::string> &ids)
{
    expected_.insert(expected_.end(), ids.begin(), ids.end());
    std::map<std::string, Record> found;
    size_t seen = 0;
    const bool complete =
        consumer_.read_until(kArrivalLimit,
                             [&](const std::vector<Record> &records)
                             {
                                 check_interrupt();
                                 for (; seen < records.size(); ++seen)
                                     if (contains(ids, id_of(records[seen])))
                                         found.emplace(id_of(records[seen]), records[seen]);
                                 return found.size() == ids.size();
                             });
    if (!complete)
        throw BrokenPromise(fmt::format("only {} of {} events arrived on topic {} within {} s",
                                        found.size(), ids.size(), topic_, kArrivalLimit.count()));
    std::vector<Record> records;
    records.reserve(found.size());
    for (const auto &[id, record] : found)
        records.push_back(record);
    std::stable_sort(records.begin(), records.end(),
                     [](const Record &a, const Record &b) { return a.received < b.received; });
    return records;
}

void
Story::commit_an_order()
{
    screen_.heading("1. An order and its event, in one transaction");
    run("create table orders (id bigint primary key, customer text, total numeric);");
    screen_.blank();
    run("begin;");
    run("insert into orders values (1, 'Ada', 25.00);");
    const std::string id =
        emit("select outbox.emit('order', '1', 'order.created',\n"
             "                   '{\"id\": 1, \"customer\": \"Ada\", \"total\": 25.00}',\n"
             "                   headers => '{\"source\": \"web-shop\"}');");
    commit();
    const Record record = receive({id}).front();
    screen_.blank();
    screen_.record(record, after_commit(record) + " after the commit (the first of its topic)");
    if (record.key != "1" || record.header("event_type") != "order.created" ||
        record.header("source") != "web-shop")
        throw BrokenPromise("the record is not the event that was emitted");
}

void
Story::roll_back_an_order()
{
    screen_.heading("2. An order that rolls back");
    run("begin;");
    run("insert into orders values (2, 'Bob', 10.00);");
    rolled_back_ = emit("select outbox.emit('order', '2', 'order.created', '{\"id\": 2}');");
    run("rollback;");
    screen_.blank();
    screen_.text("  No order, no event: at the end it is checked that this id never arrived.");
}

void
Story::emit_a_batch()
{
    screen_.heading("3. A batch of orders in one statement");
    const std::string sql =
        "with new_orders as (\n"
        "  insert into orders select n, 'customer ' || n, 10 * n\n"
        "  from generate_series(3, 6) n returning *)\n"
        "select outbox.emit('order', id::text, 'order.created', to_jsonb(new_orders))\n"
        "from new_orders;";
    const std::vector<std::string> ids = emit_and_commit(sql);
    screen_.blank();
    for (const Record &record : receive(ids))
        screen_.short_record(record, after_commit(record));
}

void
Story::follow_one_order()
{
    screen_.heading(
        "4. What happens to one order arrives in order; a plain INSERT is as good as emit()");
    const std::string sql =
        "insert into outbox.events (aggregate_type, aggregate_id, event_type, payload) values\n"
        "  ('order', '1', 'order.paid', '{\"amount\": 25.00}'),\n"
        "  ('order', '1', 'order.shipped', '{\"parcel\": \"A-1\"}')\n"
        "returning id;";
    const std::vector<std::string> ids = emit_and_commit(sql);
    screen_.blank();
    const std::vector<Record> records = receive(ids);
    for (const Record &record : records)
        screen_.short_record(record, after_commit(record));
    if (id_of(records.front()) != ids.front() || records[0].partition != records[1].partition ||
        records[0].offset > records[1].offset)
        throw BrokenPromise("the events of order 1 did not arrive in order");
}

void
Story::ask_the_database()
{
    screen_.heading("5. The database knows what was published");
    const std::string wait = fmt::format("select outbox.wait_published('{}');", expected_.back());
    const std::string published = db_.value(wait);
    screen_.sql(wait, published == "t" ? "true" : "false");
    const std::string count = "select status, count(*) from outbox.event_status group by status;";
    const test::Result result = db_.exec(count);
    std::string states;
    for (int row = 0; row < result.rows(); ++row)
        states += (states.empty() ? "" : ", ") + result.text(row, 0) + " " + result.text(row, 1);
    screen_.sql(count, states);
    if (published != "t" || states != fmt::format("PUBLISHED {}", expected_.size()))
        throw BrokenPromise("not every committed event is known as published");
}

void
Story::check_what_arrived()
{
    consumer_.read_for(kSilence);
    std::map<std::string, int> copies;
    for (const Record &record : consumer_.records())
        ++copies[id_of(record)];
    if (!rolled_back_.empty() && copies.count(rolled_back_) != 0)
        throw BrokenPromise("the event of the rolled-back order arrived: " + rolled_back_);
    for (const std::string &id : expected_)
        if (copies[id] != 1)
            throw BrokenPromise(fmt::format("event {} arrived {} times", id, copies[id]));
    screen_.blank();
    screen_.proof(fmt::format("{} committed events, each received once", expected_.size()));
    if (!rolled_back_.empty())
        screen_.proof("nothing of the rolled-back order");
}

void
Story::show_what_arrives()
{
    size_t shown = consumer_.records().size();
    const size_t most = shown + kMostShown;
    while (!interrupted() && shown < most)
    {
        consumer_.read_until(Milliseconds(200), [&](const std::vector<Record> &records)
                             { return interrupted() || records.size() > shown; });
        const std::vector<Record> &records = consumer_.records();
        for (; shown < records.size() && shown < most; ++shown)
            screen_.short_record(records[shown], since_emitted(records[shown]));
    }
    if (!interrupted())
        screen_.text("  More is not shown here; kcat shows it.");
    while (!interrupted())
        (void) test::wait_until(std::chrono::hours(1), interrupted);
}

} // namespace outbox::demo
