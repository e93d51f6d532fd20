// What has become of events that were set aside, until outbox.deliveries says so.
#pragma once

#include "lines.h"
#include "setting_aside.h"

#include <string>
#include <vector>

namespace outbox
{

// A result is heard at any moment, and written in a step:
//
//     heard ── write() ──▶ being written ── committed() ──▶ forgotten
//     being written ── rolled_back() ──▶ heard
//
// The row of an event that was published goes. One that a person holds stays, and so does its
// result, until it can go. An event that was refused blocks its line again.
class Results
{
public:
    // Throws std::bad_alloc.
    Results(const World &world, Lines &lines, Agenda &agenda, SettingAside &aside);

    // For these there is room, see reserve(). An event was published, or has no row in the ring any
    // more: what is in outbox.deliveries of it goes.
    void add_published(std::int64_t seq) { published_.push_back(seq); }
    void add_gone(std::int64_t seq)
    {
        gone_.push_back(seq);
        published_.push_back(seq);
    }
    // A topic takes events again: others that were refused with it are tried at once.
    void add_revived(std::string &&topic) { revived_.push_back(std::move(topic)); }
    // `partition`: that is refused; 0: what the failure's class says.
    void add_refused(const DeliveryRow &row, const Failure &failure, Lane partition)
    {
        refused_.push_back({row, failure, partition});
    }
    // It was not acknowledged for long: of a line the first of each partition counts for all.
    void add_late(const DeliveryRow &row, const Failure &failure, Lane partition);
    bool has_room_for_refused() const noexcept { return refused_.size() < refused_.capacity(); }
    // Makes room for all that can be heard until the next step.
    void reserve();
    // The same, when one more is set aside while it is afloat.
    void reserve_afloat();

    // Whether there are any.
    bool has_some() const noexcept { return !published_.empty() || !refused_.empty(); }
    bool has_refused() const noexcept { return !refused_.empty(); }
    // Adds the numbers of those that were refused.
    void add_refused_seqs(std::vector<std::int64_t> &seqs) const
    {
        for (const Refused &refused : refused_)
            seqs.push_back(refused.row.numbers.seq);
    }
    // Published, with a row that is still there.
    const std::vector<std::int64_t> &published() const noexcept { return published_; }
    bool is_published(std::int64_t seq) const noexcept;
    // So many were published, and their rows have gone.
    std::uint64_t counted() const noexcept { return counted_; }
    // Some rows could not be removed.
    bool awaits_rows() const noexcept { return !held_.empty(); }

    // In a step. Stops when some time has passed since `begun`, and returns false if there is more.
    bool write(const FailurePolicy &policy, Steady begun);
    // Returns whether the step has written any.
    bool committed() noexcept;
    void rolled_back();

private:
    struct Refused
    {
        DeliveryRow row;
        Failure failure;
        Lane partition;
    };

    void remove_published();
    void count_removed(std::size_t removed);
    bool write_refused(const FailurePolicy &policy, Steady begun);
    void refuse(const Refused &refused, const FailurePolicy &policy);
    void make_revived_due();

    Source &source_;
    Deliveries &deliveries_;
    Clock &clock_;
    Lines &lines_;
    Agenda &agenda_;
    SettingAside &aside_;
    std::vector<std::int64_t> published_;
    std::vector<std::int64_t> held_;     // of those, whose rows persons held in the last step
    std::vector<std::int64_t> removing_; // of those, in the step under way
    std::vector<std::int64_t> gone_;     // of all these, those that were never published
    std::uint64_t counted_ = 0;
    std::uint64_t counting_ = 0; // in the step under way
    std::vector<Refused> refused_;
    std::vector<Refused> writing_; // of those, in the step under way
    std::vector<std::string> revived_;
};

} // namespace outbox
