// Which topics Kafka has, when they are too many to ask for one by one.
#pragma once

#include "scout.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace outbox::kafka
{

// Moments are milliseconds of one steady clock.
//
//     wanted ── begin() ──▶ asked ── take(): it has come ──▶ current, for a while
//        ▲                    └── it has not: others' questions go first ──▶ wanted, later
//        └──── want() ──── none
class TopicList
{
public:
    bool is_current(std::int64_t now) const noexcept { return now < until_ms_; }
    // Needs is_current().
    bool has(std::string_view name) const noexcept;

    void want() noexcept { wanted_ = true; }
    bool is_wanted() const noexcept { return wanted_; }
    // When it may be asked for; of one that is wanted.
    std::int64_t due_at_ms() const noexcept { return at_ms_; }

    // It is asked for.
    void begin() noexcept { asked_ = true; }
    bool is_asked() const noexcept { return asked_; }
    // Returns whether it has come.
    bool take(Scout::List list, std::int64_t now) noexcept;

private:
    std::vector<std::size_t> hashes_; // of names, in order
    bool wanted_ = false;
    bool asked_ = false;
    std::int64_t at_ms_ = 0;    // not to be asked for before
    std::int64_t until_ms_ = 0; // so long the last one counts
};

} // namespace outbox::kafka
