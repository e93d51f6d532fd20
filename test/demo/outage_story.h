// What the demo tells when it is asked for an outage: the broker goes away, orders go on.
#pragma once

#include "destination.h"
#include "story.h"

namespace outbox::demo
{

class OutageStory : public Story
{
public:
    // The broker is `kafka`'s own, an embedded one.
    OutageStory(const Screen &screen, test::Db &db, test::Consumer &consumer, Destination &kafka);

    void tell() override;

private:
    void commit_with_kafka();
    void take_kafka_away();
    void commit_without_kafka();
    void show_what_is_kept();
    void bring_kafka_back();
    void check_order(const std::vector<test::Record> &records) const;

    // Emits an event of this type for each order of the outage.
    void emit_for_each(const std::string &event_type);

    Destination &kafka_;
    std::vector<std::string> kept_; // ids of the events that were committed without Kafka
};

} // namespace outbox::demo
