// What the tests of nats::Flights share: a desk that keeps what ended, and parcels with numbers.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "bgworker/sinks/nats/flights.h"

namespace outbox::test
{

struct Ended
{
    std::uint64_t tag;
    bool delivered;
    FailureClass cls;
    bool consequence;
};

// Keeps what ended; subjects live as long as it.
class Desk final : public nats::FlightEnd
{
public:
    explicit Desk(nats::FlightRules rules = {}) : flights(rules, *this) {}

    void ended(const nats::Parcel &parcel, const Failure *failure) noexcept override
    {
        all.push_back({parcel.tag, failure == nullptr,
                       failure != nullptr ? failure->cls : FailureClass::none,
                       failure != nullptr && failure->consequence});
    }

    // Its tag is its number; the token too.
    std::uint64_t add(std::uint64_t lane, const std::string &subject = "a")
    {
        nats::Parcel parcel;
        parcel.tag = ++last;
        parcel.token = (last << nats::Flights::kPlaceBits) | (last % 60000);
        parcel.lane = lane;
        parcel.subject = *subjects.insert(subject).first;
        flights.add(parcel);
        return parcel.token;
    }
    std::vector<std::uint64_t> send(std::int64_t now)
    {
        std::vector<std::uint64_t> tags;
        while (const nats::Parcel *parcel = flights.next(now))
            tags.push_back(parcel->tag);
        return tags;
    }
    std::string told()
    {
        std::string text;
        for (const Ended &ended : all)
            text += std::to_string(ended.tag) +
                    (ended.delivered     ? "+"
                     : ended.consequence ? "~"
                                         : std::string("-") + name_of(ended.cls)[0]) +
                    " ";
        all.clear();
        return text;
    }

    std::set<std::string> subjects;
    std::vector<Ended> all;
    std::uint64_t last = 0;
    nats::Flights flights;
};

inline std::uint64_t
token_of(std::uint64_t tag)
{
    return (tag << nats::Flights::kPlaceBits) | (tag % 60000);
}

inline nats::Judgement
judgement(nats::Reach reach)
{
    constexpr FailureClass kClasses[] = {FailureClass::none, FailureClass::event,
                                         FailureClass::topic, FailureClass::retriable};
    nats::Judgement made;
    made.reach = reach;
    set_failure(made.failure, kClasses[static_cast<int>(reach)], "X", "x");
    return made;
}

using Tags = std::vector<std::uint64_t>;

} // namespace outbox::test
