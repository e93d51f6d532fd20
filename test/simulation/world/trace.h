// What happened, as a number that two equal histories share, and in words when somebody reads them.
#pragma once

#include "clock.h"

#include <cstdarg>
#include <cstdio>
#include <string>
#include <vector>

namespace outbox::sim
{

class Trace
{
public:
    Trace(const SimClock &clock, bool in_words) : clock_(clock), in_words_(in_words) {}

    bool in_words() const noexcept { return in_words_; }
    // What is said from now on is said of this subscription.
    void is_about(const char *subscription) noexcept { subject_ = subscription; }

    __attribute__((format(printf, 2, 3))) void say(const char *format, ...)
    {
        add(static_cast<std::uint64_t>(clock_.at()));
        for (const char *at = format; *at != '\0'; at++)
            hash_ = (hash_ ^ static_cast<unsigned char>(*at)) * 1099511628211U;
        if (!in_words_)
            return;
        char text[512];
        std::va_list arguments;
        va_start(arguments, format);
        std::vsnprintf(text, sizeof(text), format, arguments);
        va_end(arguments);
        for (const char *at = text; *at != '\0'; at++)
            hash_in_words_ = (hash_in_words_ ^ static_cast<unsigned char>(*at)) * 1099511628211U;
        char time[32];
        std::snprintf(time, sizeof(time), "%10.6f  ",
                      static_cast<double>(clock_.at() - kBegin) / kSecond);
        lines_.push_back(std::string(time) + subject_ + text);
    }

    // Of what happened and when; of all words only if it is told in words.
    std::uint64_t hash() const noexcept { return hash_; }
    std::uint64_t hash_in_words() const noexcept { return hash_in_words_; }
    void add(std::uint64_t number) noexcept { hash_ = (hash_ ^ number) * 1099511628211U; }

    const std::vector<std::string> &lines() const noexcept { return lines_; }

private:
    const SimClock &clock_;
    const bool in_words_;
    const char *subject_ = "";
    std::uint64_t hash_ = 14695981039346656037U;
    std::uint64_t hash_in_words_ = 14695981039346656037U;
    std::vector<std::string> lines_;
};

} // namespace outbox::sim
