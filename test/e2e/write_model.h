#pragma once

#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "servers.h"

namespace outbox::test
{

// What was asked for, from which it follows what Kafka has to get.
struct ModelEvent
{
    std::string mark; // its event_type, which no other event has
    std::string key;
    Param payload;
    std::vector<std::pair<std::string, std::string>> headers; // in their order
    Param version;
    long order = 0; // among those of a key that several clients write; 0: as they are here
};

using ModelEvents = std::vector<ModelEvent>;

// What the clients know of their transactions: these committed; of each of those, whose commit was
// not answered, all events are there or none.
class Model
{
public:
    void committed(const ModelEvents &events);
    void undecided(const ModelEvents &events);
    size_t size(); // of what committed, in events

    // Reads until all of what committed has come, and says what is wrong with what came. `exact`:
    // each event once. Returns how many events committed.
    size_t expect_delivered(Consumer &consumer, bool exact);

private:
    void expect_events(const Consumer &consumer, std::map<std::string, int> *copies) const;
    void expect_order(const Consumer &consumer) const;

    std::mutex mutex_;
    ModelEvents committed_;
    std::vector<ModelEvents> undecided_;
};

} // namespace outbox::test
