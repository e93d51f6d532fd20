#include "first_copies.h"

#include <algorithm>
#include <iostream>
#include <map>
#include <set>
#include <tuple>

namespace outbox::test
{

FirstCopies
judge_first_copies(Db &db, Consumer &consumer)
{
    struct Emitted
    {
        int64_t seq;
        std::string type;
        std::string key;
    };
    std::map<std::string, Emitted> events;
    const Result rows = db.exec("select id, seq, aggregate_type, aggregate_id from outbox.events");
    for (int i = 0; i < rows.rows(); ++i)
        events[rows.text(i, 0)] = {std::stoll(rows.text(i, 1)), rows.text(i, 2), rows.text(i, 3)};
    FirstCopies found;
    found.events = events.size();
    std::set<std::string> seen;
    const auto all_there = [&](const std::vector<Record> &records)
    {
        for (; found.records < records.size(); ++found.records)
            seen.insert(records[found.records].header("id").value_or(""));
        return seen.size() >= events.size();
    };
    (void) consumer.read_until(std::chrono::seconds(60), all_there);
    consumer.read_for(Milliseconds(500));
    (void) all_there(consumer.records());

    // What a crash has sent again takes the routes of then: where it came first it was in order.
    std::map<std::string, std::string> first_topics; // by id
    std::vector<const Record *> records;
    for (const Record &record : consumer.records())
    {
        records.push_back(&record);
        first_topics.emplace(record.header("id").value_or(""), record.topic);
    }
    std::stable_sort(records.begin(), records.end(),
                     [](const Record *a, const Record *b)
                     {
                         return std::tie(a->topic, a->partition, a->offset) <
                                std::tie(b->topic, b->partition, b->offset);
                     });
    std::map<std::pair<std::string, std::string>, int64_t> last; // of a topic, and type and key
    std::set<std::pair<std::string, std::string>> copies;
    for (const Record *record : records)
    {
        const std::string id = record->header("id").value_or("");
        const auto event = events.find(id);
        if (event == events.end())
        {
            std::cout << "INVENTED " << id << " in " << record->topic << "\n";
            ++found.invented;
            continue;
        }
        if (!copies.emplace(record->topic, id).second)
            continue;
        const bool repeat = first_topics.at(id) != record->topic;
        found.elsewhere += repeat ? 1 : 0;
        int64_t &before = last[{record->topic, event->second.type + " " + event->second.key}];
        if (event->second.seq < before && !repeat)
        {
            ++found.misordered;
            std::cout << "MISORDERED " << event->second.seq << " of " << event->second.type << " "
                      << event->second.key << " after " << before << ": " << record->topic << "["
                      << record->partition << "]@" << record->offset << "\n";
        }
        before = std::max(before, event->second.seq);
    }
    for (const auto &[id, event] : events)
        if (seen.count(id) == 0)
        {
            ++found.lost;
            std::cout << "LOST " << event.seq << " of " << event.type << " " << event.key << "\n";
        }
    return found;
}

} // namespace outbox::test
