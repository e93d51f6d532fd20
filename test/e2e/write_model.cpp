#include "write_model.h"

#include <algorithm>
#include <set>

namespace outbox::test
{

void
Model::committed(const ModelEvents &events)
{
    const std::lock_guard<std::mutex> lock(mutex_);
    committed_.insert(committed_.end(), events.begin(), events.end());
}

void
Model::undecided(const ModelEvents &events)
{
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!events.empty())
        undecided_.push_back(events);
}

size_t
Model::size()
{
    const std::lock_guard<std::mutex> lock(mutex_);
    return committed_.size();
}

namespace
{

// The headers that the caller gave.
std::vector<std::pair<std::string, std::string>>
given_headers(const Record &record)
{
    static const std::set<std::string> kOurs = {"id", "event_type", "aggregate_type", "created_at",
                                                "schema_version"};
    std::vector<std::pair<std::string, std::string>> headers;
    for (const auto &[name, value] : record.headers)
        if (kOurs.count(name) == 0)
            headers.emplace_back(name, value.value_or("(null)"));
    return headers;
}

std::string
mark_of(const Record &record)
{
    return record.header("event_type").value_or("");
}

void
expect_same(const ModelEvent &event, const Record &record)
{
    EXPECT_EQ(record.key, event.key) << event.mark;
    EXPECT_EQ(record.value, event.payload) << event.mark;
    EXPECT_EQ(given_headers(record), event.headers) << event.mark;
    EXPECT_EQ(record.header("schema_version"), event.version) << event.mark;
}

} // namespace

void
Model::expect_events(const Consumer &consumer, std::map<std::string, int> *copies) const
{
    std::map<std::string, const ModelEvent *> known;
    for (const ModelEvent &event : committed_)
        known[event.mark] = &event;
    for (const ModelEvents &events : undecided_)
        for (const ModelEvent &event : events)
            known[event.mark] = &event;
    for (const Record &record : consumer.records())
    {
        ++(*copies)[mark_of(record)];
        const auto event = known.find(mark_of(record));
        if (event == known.end())
            ADD_FAILURE() << "invented: " << mark_of(record) << " " << record.value.value_or("");
        else
            expect_same(*event->second, record);
    }
    for (const ModelEvents &events : undecided_)
    {
        const auto came =
            std::count_if(events.begin(), events.end(),
                          [&](const ModelEvent &event) { return copies->count(event.mark) > 0; });
        EXPECT_TRUE(came == 0 || static_cast<size_t>(came) == events.size())
            << came << " of " << events.size() << " events of a transaction, " << events[0].mark;
    }
}

// The first copies of each key, in the order of their partition.
void
Model::expect_order(const Consumer &consumer) const
{
    std::map<std::string, std::vector<std::string>> came;
    std::set<std::string> seen;
    for (const Record &record : consumer.records())
        if (seen.insert(mark_of(record)).second)
            came[record.key.value_or("")].push_back(mark_of(record));
    ModelEvents all = committed_;
    std::set<std::string> decided;
    for (const ModelEvent &event : committed_)
        decided.insert(event.mark);
    std::map<std::string, ModelEvents> by_key;
    for (const ModelEvent &event : all)
        by_key[event.key].push_back(event);
    for (auto &[key, events] : by_key)
    {
        std::stable_sort(events.begin(), events.end(),
                         [](const ModelEvent &a, const ModelEvent &b)
                         { return a.order < b.order; });
        std::vector<std::string> expected;
        for (const ModelEvent &event : events)
            expected.push_back(event.mark);
        std::vector<std::string> found;
        std::copy_if(came[key].begin(), came[key].end(), std::back_inserter(found),
                     [&](const std::string &mark) { return decided.count(mark) > 0; });
        EXPECT_EQ(found, expected) << key;
    }
}

size_t
Model::expect_delivered(Consumer &consumer, bool exact)
{
    std::set<std::string> missing;
    for (const ModelEvent &event : committed_)
        missing.insert(event.mark);
    size_t looked = 0;
    const auto all_came = [&](const std::vector<Record> &records)
    {
        for (; looked < records.size(); ++looked)
            missing.erase(mark_of(records[looked]));
        return missing.empty();
    };
    EXPECT_TRUE(consumer.read_until(std::chrono::seconds(60), all_came))
        << missing.size() << " lost, such as " << *missing.begin();
    consumer.read_for(std::chrono::seconds(2));
    std::map<std::string, int> copies;
    expect_events(consumer, &copies);
    expect_order(consumer);
    for (const auto &[mark, count] : copies)
        if (exact && count != 1)
            ADD_FAILURE() << mark << ": " << count << " copies";
    std::printf("%zu events, %zu transactions undecided\n", committed_.size(), undecided_.size());
    return committed_.size();
}

} // namespace outbox::test
