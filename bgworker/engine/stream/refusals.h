// Events of the stream that were refused, until they are set aside.
#pragma once

#include "bgworker/engine/redelivery/setting_aside.h"

namespace outbox
{

// An event is refused for itself, alone or with its topic or partition; or it is a suspect: one of
// those of a partition that were sent together and refused. Either way it stays in flight until it
// is set aside, in a step. What a sink that refuses records one by one has given back with one of
// them, unsent, is a follower: it is handed over again, behind that.
class Refusals
{
public:
    // Throws std::bad_alloc. No more than `max_events` are in flight.
    Refusals(const World &world, Progress &progress, Lines &lines, SettingAside &aside,
             std::size_t max_events);

    // Not in a step.
    void add_refused(std::uint64_t tag, Lane partition, const Failure &failure) noexcept;
    void add_suspect(std::uint64_t tag, const Failure &failure) noexcept;
    void add_follower(std::uint64_t tag, Lane partition) noexcept;
    // Refusals are reported one by one, each with a reason of its own. Throws std::bad_alloc.
    void expect_reasons();

    // Of these, some are not set aside yet: then nothing new may go to their partitions.
    bool has_refused() const noexcept { return refused_done_ < refused_.size(); }
    bool has_suspects() const noexcept { return suspects_done_ < suspects_.size(); }
    bool is_waiting(Lane partition) const noexcept;
    bool has_followers() const noexcept { return !followers_.empty(); }
    // They are the caller's: to be held before anything else of their partition is looked at; or to
    // be handed over again with all that is in flight.
    template <typename F> void take_followers(F f)
    {
        for (const Refused &follower : followers_)
            f(follower.tag, follower.partition);
        followers_.clear();
    }
    void drop_followers() noexcept { followers_.clear(); }
    bool is_empty() const noexcept { return refused_.empty() && suspects_.empty(); }
    // In a step: all is set aside.
    bool is_all_done() const noexcept { return !has_refused() && !has_suspects(); }
    std::size_t capacity() const noexcept { return suspects_.capacity(); }

    // In a step, which keeps them or not: they are forgotten when it has ended. Both stop when some
    // time has passed since `begun`, and are to be called again then.
    void set_refused_aside(const FailurePolicy &policy, Steady begun);
    void set_suspects_aside(const FailurePolicy &policy, Steady begun);
    void committed() noexcept;
    void rolled_back() noexcept;

    // How often a batch of several events was too large.
    int oversized_batches() const noexcept { return oversized_batches_; }

private:
    struct Refused
    {
        std::uint64_t tag;
        Lane partition;
        std::size_t reason; // in reasons_
    };
    // Beyond that the reason of the last one is shown for all.
    static constexpr std::size_t kMostReasons = 1024;

    void set_aside(std::uint64_t tag, Lane partition, const Failure &failure,
                   const FailurePolicy &policy);
    std::size_t end_of_partition(std::size_t begin, Progress::InFlight &flight) const noexcept;
    void begin_suspects();
    bool is_over(Steady begun) const noexcept;

    Source &source_;
    Clock &clock_;
    Progress &progress_;
    Lines &lines_;
    SettingAside &aside_;
    std::vector<Refused> refused_;
    std::vector<Lane> partitions_; // of the first so many of these, ascending
    std::size_t partitions_of_ = 0;
    std::vector<Failure> reasons_; // of these; of a destination that refuses topics one, the last
    std::size_t most_reasons_ = 1;
    std::vector<Refused> followers_;
    std::vector<std::uint64_t> suspects_;
    Failure suspicion_;
    // The partition of the first suspects, if it is being set aside, and how many are left of it.
    Lane group_ = 0;
    std::size_t group_left_ = 0;
    int oversized_batches_ = 0;
    // Of all these, what is set aside in the step under way.
    std::size_t refused_done_ = 0;
    std::size_t suspects_done_ = 0;
    Lane group_now_ = 0;
    std::size_t group_left_now_ = 0;
    int oversized_done_ = 0;
};

} // namespace outbox
