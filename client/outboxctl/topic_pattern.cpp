#include "topic_pattern.h"

#include "errors.h"

#include "extension/core/topic_template.h"

#include <string_view>

namespace outbox::ctl
{

namespace
{

constexpr std::string_view kDeadLetters = ".dlq";

} // namespace

TopicPattern::TopicPattern(const std::string &topic_template)
{
    const Verdict verdict = check_template(topic_template);
    if (!verdict.ok)
        throw Error(kFailed, std::string("outbox.topic_template ") + verdict.reason, verdict.hint);
    std::string pattern;
    for (std::size_t i = 0; i < topic_template.size(); i++)
    {
        const char c = topic_template[i];
        if (c == '{')
        {
            // A template that was accepted closes what it opens.
            i = topic_template.find('}', i);
            pattern += "[A-Za-z0-9._-]+";
            shown_ += '*';
            continue;
        }
        // Of the characters of topic names, only the dot means something here.
        pattern += c == '.' ? "\\." : std::string(1, c);
        shown_ += c;
    }
    regex_ = std::regex(pattern);
}

bool
TopicPattern::matches(const std::string &topic) const
{
    const bool dead_letters =
        topic.size() > kDeadLetters.size() &&
        topic.compare(topic.size() - kDeadLetters.size(), kDeadLetters.size(), kDeadLetters) == 0;
    return !dead_letters && std::regex_match(topic, regex_);
}

} // namespace outbox::ctl
