#include "checker.h"

#include <algorithm>
#include <map>
#include <sstream>
#include <unordered_map>
#include <utility>

namespace outbox::test
{

namespace
{

using Key = std::pair<std::string, std::string>; // topic and key

struct Known
{
    const Event *event = nullptr;
    size_t copies = 0;
};

std::string
place(const Delivery &delivery)
{
    return delivery.topic + "[" + std::to_string(delivery.partition) + "]@" +
           std::to_string(delivery.offset);
}

std::string
shortened(const std::optional<std::string> &payload)
{
    if (!payload)
        return "null";
    constexpr size_t kShown = 60;
    return payload->size() <= kShown ? *payload : payload->substr(0, kShown) + "…";
}

// Matches every delivery with its event: counts copies, finds invented and altered ones.
std::unordered_map<std::string, Known>
match(const std::vector<Event> &events, const std::vector<Delivery> &deliveries, Report &report)
{
    std::unordered_map<std::string, Known> known;
    for (const Event &event : events)
        known[event.id].event = &event;
    for (const Delivery &delivery : deliveries)
    {
        const auto found = known.find(delivery.id);
        if (found == known.end())
        {
            report.invented.push_back(delivery.id + " at " + place(delivery));
            continue;
        }
        Known &entry = found->second;
        if (++entry.copies > 1)
            ++report.duplicates;
        report.most_copies = std::max(report.most_copies, entry.copies);
        const Event &event = *entry.event;
        if (delivery.topic != event.topic || delivery.key != event.key ||
            delivery.payload != event.payload)
            report.altered.push_back(event.id + " committed as " + event.topic + " " + event.key +
                                     " " + shortened(event.payload) + ", is at " + place(delivery) +
                                     " as " + delivery.key + " " + shortened(delivery.payload));
    }
    return known;
}

// The place of each delivered event among the delivered events of its topic and key, from 1.
std::unordered_map<std::string, size_t>
rank_by_key(const std::vector<Event> &events, const std::unordered_map<std::string, Known> &known,
            Report &report)
{
    std::map<Key, std::vector<const Event *>> by_key;
    for (const Event &event : events)
    {
        if (known.at(event.id).copies > 0)
            by_key[{event.topic, event.key}].push_back(&event);
        else
            report.lost.push_back(event.id + " (seq " + std::to_string(event.seq) + ", key " +
                                  event.key + ")");
    }
    std::unordered_map<std::string, size_t> rank;
    for (auto &[key, list] : by_key)
    {
        std::sort(list.begin(), list.end(),
                  [](const Event *a, const Event *b) { return a->seq < b->seq; });
        for (size_t i = 0; i < list.size(); ++i)
            rank[list[i]->id] = i + 1;
    }
    return rank;
}

void
judge_order(std::vector<const Delivery *> &list,
            const std::unordered_map<std::string, size_t> &rank, Report &report)
{
    std::sort(list.begin(), list.end(),
              [](const Delivery *a, const Delivery *b)
              { return std::pair(a->partition, a->offset) < std::pair(b->partition, b->offset); });
    if (list.front()->partition != list.back()->partition)
    {
        report.altered.push_back("key " + list.front()->key + " of " + list.front()->topic +
                                 " is in several partitions");
        return;
    }
    size_t last = 0;
    for (const Delivery *delivery : list)
    {
        const auto found = rank.find(delivery->id);
        if (found == rank.end())
            continue; // invented, reported already
        if (found->second > last + 1)
            report.misordered.push_back(delivery->id + " at " + place(*delivery) + " is event " +
                                        std::to_string(found->second) + " of key " + delivery->key +
                                        ", after event " + std::to_string(last));
        last = found->second;
    }
}

void
list_first(std::ostringstream &out, const char *title, const std::vector<std::string> &findings)
{
    constexpr size_t kShown = 10;
    for (size_t i = 0; i < std::min(findings.size(), kShown); ++i)
        out << "\n  " << title << ": " << findings[i];
    if (findings.size() > kShown)
        out << "\n  " << title << ": … and " << findings.size() - kShown << " more";
}

} // namespace

Report
compare(const std::vector<Event> &events, const std::vector<Delivery> &deliveries)
{
    Report report;
    report.events = events.size();
    report.deliveries = deliveries.size();
    const auto known = match(events, deliveries, report);
    const auto rank = rank_by_key(events, known, report);

    std::map<Key, std::vector<const Delivery *>> by_key;
    for (const Delivery &delivery : deliveries)
        by_key[{delivery.topic, delivery.key}].push_back(&delivery);
    for (auto &[key, list] : by_key)
        judge_order(list, rank, report);
    return report;
}

std::string
Report::summary() const
{
    std::ostringstream out;
    out << events << " events, " << deliveries << " deliveries, lost " << lost.size()
        << ", invented " << invented.size() << ", misordered " << misordered.size() << ", altered "
        << altered.size() << ", duplicates " << duplicates << " (at most " << most_copies
        << " copies)";
    list_first(out, "lost", lost);
    list_first(out, "invented", invented);
    list_first(out, "misordered", misordered);
    list_first(out, "altered", altered);
    return out.str();
}

} // namespace outbox::test
