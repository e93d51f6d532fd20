// Events that a destination has refused alone, and that may be refused again.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace outbox
{

// What is refused ends the sink, and what is still queued there comes back without having been
// sent. Were all tried together each time, an event that is well might never be sent: a sink does
// not send in the order in which it was given them. So these go last. No more than the newest are
// known; others are tried along with all, as anything that has not been refused so yet.
class Culprits
{
public:
    // Throws std::bad_alloc.
    explicit Culprits(std::size_t most) : most_(most) { seqs_.reserve(most); }

    bool is_empty() const noexcept { return seqs_.empty(); }
    const std::vector<std::int64_t> &seqs() const noexcept { return seqs_; }

    void note(std::int64_t seq) noexcept
    {
        forget(seq);
        if (seqs_.size() == most_)
            seqs_.erase(seqs_.begin());
        seqs_.push_back(seq); // reserved
    }
    void forget(std::int64_t seq) noexcept
    {
        const auto found = std::find(seqs_.begin(), seqs_.end(), seq);
        if (found != seqs_.end())
            seqs_.erase(found);
    }

private:
    std::size_t most_;
    std::vector<std::int64_t> seqs_;
};

} // namespace outbox
