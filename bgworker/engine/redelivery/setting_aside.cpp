#include "setting_aside.h"

#include "bgworker/engine/common/backoff.h"
#include "bgworker/engine/mutant.h"

#include <algorithm>
#include <cstdio>

namespace outbox
{

namespace
{

// What is refused as a whole is retried for ever: its events are not at fault.
bool
is_whole(const Failure &failure) noexcept
{
    return failure.cls == FailureClass::topic;
}

} // namespace

// Later events of its key may wait in the line that it comes from, so it goes to no wider one.
Lane
SettingAside::line_blocked_by(const Event &event, const Refusal &refusal) const noexcept
{
    if (!is_whole(refusal.failure))
        return key_lane(event.topic, event.key);
    const Lane topic = topic_lane(event.topic);
    if (refusal.row_lane != 0 && refusal.row_lane != topic && !OUTBOX_MUTANT(refuses_to_wider))
        return refusal.row_lane;
    return refusal.lane != 0 ? refusal.lane : topic;
}

// One whose partition nobody knows was never queued: what was set aside of its key is before it,
// perhaps in the partition's line. So it goes to the topic's.
bool
SettingAside::is_unplaced(const Refusal &refusal) const noexcept
{
    return refusal.from_stream && is_whole(refusal.failure) && refusal.partition == 0 &&
           !OUTBOX_MUTANT(places_without_partition);
}

Lane
SettingAside::line_to_join(const Event &event, const Refusal &refusal) const noexcept
{
    if (!refusal.from_stream)
        return 0;
    const Lane topic = topic_lane(event.topic);
    if (is_unplaced(refusal))
        return lines_.wait_of(topic) != Lines::Wait::none ? topic : 0;
    return lines_.lane_of(topic, refusal.partition, key_lane(event.topic, event.key), refusal.tag);
}

bool
SettingAside::refuse(const Event &event, const Refusal &refusal, const FailurePolicy &policy)
{
    const std::uint16_t counted_as = tally_.topic(event.topic);
    tally_.refused(counted_as);
    const Failure &failure = refusal.failure;
    agenda_.stir();
    if (const Lane behind = line_to_join(event, refusal); behind != 0)
    {
        set_aside_waiting(event, behind);
        if (is_unplaced(refusal))
            lines_.note_unplaced(behind, refusal.tag);
        return true;
    }
    const bool whole = is_whole(failure);
    const Lane lane = line_blocked_by(event, refusal);
    rows_at_start_.set_aside(key_lane(event.topic, event.key));
    const bool placed = refusal.placed || OUTBOX_MUTANT(takes_place_again);
    const bool blocking = placed && (whole || blocks_key(event, policy.block));
    const int attempts = std::min(refusal.attempts_before, 64) + 1;
    const Written written = deliveries_.add_refused(
        event, lane,
        {failure, blocking, next_attempt_after(attempts, policy), whole ? 0 : policy.max_attempts});
    const bool given_up = written == Written::failed;
    if (given_up)
        tally_.failed(counted_as);
    const bool new_to_log = whole && lane != key_lane(event.topic, event.key) &&
                            written != Written::kept && is_new_to_log(event, refusal, policy);
    using Say = NamedAnHour::Say;
    const Say say = given_up     ? events_named_.next(clock_.steady())
                    : new_to_log ? topics_named_.next(clock_.steady())
                                 : Say::nothing;
    if (say == Say::one || (OUTBOX_MUTANT(tells_again) && whole))
        log_refusal(event, failure, given_up, blocking);
    else if (say == Say::more)
        log_more(given_up);
    agenda_.find_due();
    if (written == Written::kept)
    {
        lines_.keep_back(refusal.row_lane != 0 ? refusal.row_lane : lane);
        return false;
    }
    if (blocking && !OUTBOX_MUTANT(blocks_nothing))
        lines_.block(lane);
    if (is_unplaced(refusal))
        lines_.note_unplaced(lane, refusal.tag);
    return true;
}

void
SettingAside::set_aside_waiting(const Event &event, Lane lane)
{
    rows_at_start_.set_aside(key_lane(event.topic, event.key));
    if (!OUTBOX_MUTANT(sets_aside_nowhere))
        deliveries_.add_waiting(event, lane);
    lines_.join(lane, event.numbers.seq);
}

void
SettingAside::set_aside_suspect(const Event &event, Lane partition, std::uint64_t tag)
{
    const Lane other =
        lines_.lane_of(topic_lane(event.topic), partition, key_lane(event.topic, event.key), tag);
    set_aside_waiting(event, other != 0 ? other : partition);
}

// The first of a partition is the head of its line, and says what is wrong.
Lane
SettingAside::set_aside_stuck(const Event &event, const Failure &failure, Lane partition,
                              std::uint64_t tag, const FailurePolicy &policy)
{
    const Lane other =
        lines_.lane_of(topic_lane(event.topic), partition, key_lane(event.topic, event.key), tag);
    const Line *known = lines_.find(partition);
    if (other != partition && other != 0)
    {
        set_aside_waiting(event, other);
        return other;
    }
    if (known != nullptr && known->afloat > 1)
        set_aside_waiting(event, partition);
    else
        (void) refuse(event, {failure, partition, false}, policy);
    return partition;
}

// The pause after the n-th attempt: exponential with jitter.
Time
SettingAside::next_attempt_after(int attempts, const FailurePolicy &policy)
{
    Backoff backoff;
    backoff.configure(policy.backoff_initial_ms, policy.backoff_max_ms);
    std::int64_t wait = 0;
    for (int i = 0; i < std::min(attempts, 64); i++)
        wait = backoff.fail(clock_.random());
    return plus_ms(clock_.time_of_day(), OUTBOX_MUTANT(tries_at_once) ? 0 : wait);
}

bool
SettingAside::is_new_to_log(const Event &event, const Refusal &refusal, const FailurePolicy &policy)
{
    return told_.note(topic_lane(event.topic), refusal.failure.name, clock_.steady(),
                      policy.backoff_max_ms) &&
           refusal.attempts_before == 0;
}

void
SettingAside::log_more(bool given_up) noexcept
{
    char text[128];
    char detail[128];
    if (given_up)
        (void) std::snprintf(text, sizeof text, "outbox: further events for %s have failed",
                             destination_.title());
    else
        (void) std::snprintf(text, sizeof text, "outbox: %s takes no events for further topics",
                             destination_.title());
    (void) std::snprintf(detail, sizeof detail,
                         "%d were named within an hour; outbox.%s has the others.",
                         NamedAnHour::kMost, given_up ? "dead_letters" : "deliveries");
    LogLine line;
    line.level = LogLine::Level::warning;
    line.text = text;
    line.detail = detail;
    source_.log(line);
}

// One line for an event that is given up, and one when a whole topic begins to be refused.
void
SettingAside::log_refusal(const Event &event, const Failure &failure, bool given_up, bool blocking)
{
    char text[sizeof failure.text + 512];
    char id[kUuidText];
    LogLine line;
    line.level = LogLine::Level::warning;
    line.text = text;
    const int size = static_cast<int>(event.topic.size());
    if (!given_up)
    {
        (void) std::snprintf(
            text, sizeof text, "outbox: %s takes no events for topic \"%.*s\": %s: %s",
            destination_.title(), size, event.topic.data(), failure.name, failure.text);
        line.detail = "Its events wait and are tried again; other topics continue.";
    }
    else
    {
        write_uuid(event.id, id);
        (void) std::snprintf(text, sizeof text,
                             "outbox: event %s for topic \"%.*s\" has failed: %s: %s", id, size,
                             event.topic.data(), failure.name, failure.text);
        line.detail = blocking ? "Later events of its key wait behind it." : "";
        line.hint = "See outbox.dead_letters; settle it with outbox.retry() or outbox.discard().";
    }
    source_.log(line);
}

} // namespace outbox
