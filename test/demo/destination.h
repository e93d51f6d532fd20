// The Kafka that the demo publishes to.
#pragma once

#include <memory>
#include <string>

#include "support/kafka_cluster.h"

namespace outbox::demo
{

// An embedded broker, or a Kafka that exists. In the latter events go to a topic of the demo's own,
// which is deleted at the end unless it was there before.
class Destination
{
public:
    // An empty `bootstrap` asks for the embedded broker. Throws when there is no topic to be had.
    explicit Destination(const std::string &bootstrap);
    ~Destination();
    Destination(const Destination &) = delete;
    Destination &operator=(const Destination &) = delete;

    bool embedded() const { return embedded_ != nullptr; }
    const std::string &bootstrap() const { return bootstrap_; }

    // Closes every connection to the embedded broker and refuses new ones; and the end of that.
    void take_away() { embedded_->kill9(); }
    void bring_back() { embedded_->start(); }

    // The setting outbox.topic_template, and where it sends the events of orders.
    const std::string &topic_template() const { return topic_template_; }
    const std::string &topic() const { return topic_; }

private:
    void find_or_make_topic();

    std::unique_ptr<test::EmbeddedKafka> embedded_;
    std::string bootstrap_;
    std::string topic_template_;
    std::string topic_;
    bool delete_topic_ = false;
};

} // namespace outbox::demo
