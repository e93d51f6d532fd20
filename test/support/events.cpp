#include "events.h"

#include <stdexcept>
#include <unordered_set>

namespace outbox::test
{

namespace
{

// From PostgreSQL's hex format of bytea, without its \x.
std::string
from_hex(const std::string &hex)
{
    std::string raw;
    for (size_t i = 0; i + 1 < hex.size(); i += 2)
        raw += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
    return raw;
}

} // namespace

std::vector<Event>
committed_events(Db &db, const std::string &topic_prefix)
{
    const Result rows = db.exec(
        "select seq, id, aggregate_type, coalesce(partition_key, aggregate_id), payload::text, "
        "encode(payload_bytes, 'hex') from outbox.events order by seq");
    std::vector<Event> events;
    events.reserve(static_cast<size_t>(rows.rows()));
    for (int row = 0; row < rows.rows(); ++row)
    {
        Event event;
        event.seq = std::stoll(rows.text(row, 0));
        event.id = rows.text(row, 1);
        event.topic = topic_prefix + rows.text(row, 2);
        event.key = rows.text(row, 3);
        event.payload = rows.field(row, 4);
        if (const Param hex = rows.field(row, 5))
            event.payload = from_hex(*hex);
        events.push_back(std::move(event));
    }
    return events;
}

std::vector<Delivery>
deliveries(const std::vector<Record> &records)
{
    std::vector<Delivery> list;
    list.reserve(records.size());
    for (const Record &record : records)
        list.push_back({record.header("id").value_or("(no id)"), record.topic, record.partition,
                        record.offset, record.key.value_or("(no key)"), record.value});
    return list;
}

Report
check_delivery(Db &db, Consumer &consumer, Milliseconds limit)
{
    constexpr auto kAfterwards = Milliseconds(300);
    const std::vector<Event> events = committed_events(db);
    std::unordered_set<std::string> missing;
    for (const Event &event : events)
        missing.insert(event.id);

    size_t looked_at = 0;
    const auto all_there = [&](const std::vector<Record> &records)
    {
        for (; looked_at < records.size(); ++looked_at)
            if (const auto id = records[looked_at].header("id"))
                missing.erase(*id);
        return missing.empty();
    };
    consumer.read_until(limit, all_there);
    consumer.read_for(kAfterwards);
    return compare(events, deliveries(consumer.records()));
}

} // namespace outbox::test
