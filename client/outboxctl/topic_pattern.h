// Which topics a template such as "outbox.event.{aggregate_type}" can name.
#pragma once

#include <regex>
#include <string>

namespace outbox::ctl
{

class TopicPattern
{
public:
    // Throws Error for a template that outbox.topic_template would not take.
    explicit TopicPattern(const std::string &topic_template);

    // Dead-letter topics of consumers (….dlq) do not match: they hold no events of the relay.
    bool matches(const std::string &topic) const;

    // The template with stars, for messages.
    const std::string &shown() const { return shown_; }

private:
    std::regex regex_;
    std::string shown_;
};

} // namespace outbox::ctl
