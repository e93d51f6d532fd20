// The stream of new events is read, as far as there is room.
#pragma once

#include "backlog.h"
#include "passage.h"
#include "window.h"

namespace outbox
{

enum class StepResult
{
    idle,    // nothing more to hand over at present
    busy,    // there is more
    full,    // there may be more, but what is in flight must be acknowledged first
    standby, // the next events are not yet safe on the synchronous standbys
    locked,  // a table is locked by a session
    gone     // the extension is not there any more
};

// One window after the other is opened, and handed over in order. Once there was no room, reading
// waits until there is ample room: to continue for each single event would cost a transaction for
// each.
class Reading
{
public:
    Reading(const World &world, Progress &progress, Redelivery &redelivery, const StreamSink &sink,
            Passage &passage, std::size_t max_bytes)
        : world_(world), progress_(progress), aside_(redelivery.setting_aside()),
          rows_at_start_(redelivery.rows_at_start()), sink_(sink), passage_(passage),
          max_bytes_(max_bytes)
    {
    }

    void start(const StoredPosition &stored, const StoredBacklog &backlog);

    bool may_read(bool look) noexcept;
    // In a step. Opens a new window when the one before is through and `look` is set; `mark` is
    // Source::emitted() from before the step.
    StepResult read(std::uint64_t mark, bool look, bool paused);

    // Whether all was read that the process before may have handed over.
    bool was_all_read() const noexcept;
    bool is_crowded() const noexcept { return crowded_; }
    bool has_window() const noexcept { return window_.is_open(); }
    // When the next event was emitted; 0: none is known.
    Time oldest_waiting() const noexcept { return window_.is_open() ? waiting_.since : 0; }
    const Backlog &backlog() const noexcept { return backlog_; }
    std::uint64_t backlog_base() const noexcept;

private:
    // The next event, while it cannot be handed over.
    struct Waiting
    {
        std::int64_t seq = 0;
        std::int64_t xid = 0;
        Time since = 0; // 0: none is known
    };

    bool hand_over_some(bool paused);
    void find_oldest_waiting();
    void note_waiting(const Event &event) noexcept;
    Passage::HandOver hand_over(const EventKey &key);
    Passage::HandOver pass(const EventKey &key, Event &event);
    Passage::HandOver no_room() noexcept;
    void set_aside(const Event &event, const EventKey &key) noexcept;

    const World world_;
    Progress &progress_;
    SettingAside &aside_;
    const RowsAtStart &rows_at_start_;
    const StreamSink &sink_;
    Passage &passage_;
    const std::size_t max_bytes_;
    Window window_;
    Backlog backlog_;
    bool crowded_ = false; // there was no room, and there is not ample room yet
    Waiting waiting_;
};

} // namespace outbox
