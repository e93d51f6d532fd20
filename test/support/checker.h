#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace outbox::test
{

// What the database committed and Kafka must therefore hold.
struct Event
{
    int64_t seq = 0; // order of the events that share a topic and a key
    std::string id;
    std::string topic;
    std::string key;
    std::optional<std::string> payload;
};

// One copy of an event that a consumer read.
struct Delivery
{
    std::string id;
    std::string topic;
    int32_t partition = 0;
    int64_t offset = 0;
    std::string key;
    std::optional<std::string> payload;
};

// What is wrong between the two, each finding as a sentence; repeats are counted, not judged.
struct Report
{
    size_t events = 0;
    size_t deliveries = 0;
    size_t duplicates = 0;  // deliveries beyond the first of their event
    size_t most_copies = 0; // of one event
    std::vector<std::string> lost;
    std::vector<std::string> invented;
    std::vector<std::string> misordered;
    std::vector<std::string>
        altered; // another topic, key or payload than committed, or several partitions for a key

    // Promises 1 to 5: everything there, nothing else, in order. Copies are allowed.
    bool complete_and_ordered() const
    {
        return lost.empty() && invented.empty() && misordered.empty() && altered.empty();
    }
    // The same, each event once.
    bool exact() const { return complete_and_ordered() && duplicates == 0; }

    // One line of counts, then the first findings of each kind.
    std::string summary() const;
};

// Compares them. Order is judged for each topic and key on its own: a delivery may be the next
// event after the one before it, or an earlier one again, from where the sequence then continues (a
// relay that starts over repeats a stretch that ends where it had been). Leaving an event out on
// the way is a violation, unless that event is lost altogether, which is reported as such.
Report compare(const std::vector<Event> &events, const std::vector<Delivery> &deliveries);

} // namespace outbox::test
