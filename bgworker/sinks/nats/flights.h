// What the sink has of records: in which order they go out, and what becomes of them.
#pragma once

#include "bgworker/engine/common/backoff.h"

#include "judgement.h"

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace outbox::nats
{

// A record that was handed over. `message` is its form for the wire, which Flights neither looks
// into nor frees.
struct Parcel
{
    void *message = nullptr;
    std::string_view subject; // inside the message
    // That answers carry: the number of its place, and above that one that no other record has had.
    std::uint64_t token = 0;
    std::uint64_t tag = 0;
    std::uint64_t lane = 0; // of topic and key
};

// Hears what becomes of parcels.
class FlightEnd
{
public:
    virtual ~FlightEnd() = default;
    // `failure`: null when the message is stored.
    virtual void ended(const Parcel &parcel, const Failure *failure) noexcept = 0;
};

struct FlightRules
{
    int timeout_ms = 5000;
    // How long a subject that refuses everything keeps what waits for it.
    int patience_ms = 1000;
    std::int64_t backoff_initial_ms = 500;
    std::int64_t backoff_max_ms = 60000;
};

// Of a lane only the first is under way: what comes behind it is sent when it is acknowledged, and
// given up, unsent, when it is refused. The lane is closed then: what is added to it is given up at
// once, until who adds has heard of the refusal and reopens it. Lanes know nothing of each other.
//
// Trouble of the destination keeps everything: one record at a time tries whether it is over.
// Trouble of a subject keeps what is of that subject, for `patience_ms`; then that is given up with
// the class topic, and so is what comes after it, but for one record now and then that tries
// whether it is over. All other subjects flow.
//
// Times are milliseconds of a clock that is never set. May throw std::bad_alloc where it is not
// noexcept.
class Flights
{
public:
    Flights(const FlightRules &rules, FlightEnd &end);
    Flights(const Flights &) = delete;
    Flights &operator=(const Flights &) = delete;

    void add(const Parcel &parcel);
    // Opens a lane that a refusal has closed. Returns how many were given up behind the refused
    // one.
    std::size_t reopen(std::uint64_t lane) noexcept;

    static constexpr unsigned kPlaceBits = 16;
    static std::size_t place_of(std::uint64_t token) noexcept
    {
        return token & ((std::uint64_t{1} << kPlaceBits) - 1);
    }

    // The next one that may be sent, which then counts as sent; null when there is none.
    const Parcel *next(std::int64_t now) noexcept;

    // Each of these looks the token up, and does nothing if it is not under way.
    void stored(std::uint64_t token) noexcept;
    void refused(std::uint64_t token, const Judgement &judgement, std::int64_t now,
                 std::uint64_t random);
    const Parcel *find(std::uint64_t token) const noexcept;
    // The same for what is under way on a subject. A text that was cut is what the subject begins
    // with.
    void not_permitted(std::string_view subject, bool cut, std::int64_t now, std::uint64_t random);

    // What waits for its subject does so for another reason than that.
    void keep_all() noexcept;
    // Nothing that is under way is answered any more: it goes out again.
    void disconnected() noexcept;
    // Nothing is sent before retry_at(), and then one record to see whether that is over.
    void trouble(std::int64_t now, std::uint64_t random) noexcept;
    // There is a connection, and nothing that could try it.
    void recovered() noexcept { in_trouble_ = in_trouble_ && count_ > 0; }

    // Looks for what has got no answer in time. False: nothing has, since the first of it was sent,
    // so the connection is useless.
    bool watch(std::int64_t now, std::uint64_t random);
    // When next() or watch() has to be called at the latest; INT64_MAX: not before something
    // happens.
    std::int64_t due() const noexcept;

    // Gives everything up.
    void give_up_all(const Failure &failure) noexcept;
    // One at a time, until as many are acknowledged as are under way now: one of them ends
    // connections.
    void isolate() noexcept;
    // The only one under way, or null.
    const Parcel *alone() const noexcept;

    bool is_in_trouble() const noexcept { return in_trouble_; }
    std::int64_t retry_at() const noexcept { return retry_at_; }
    std::size_t size() const noexcept { return count_; }
    std::size_t under_way() const noexcept { return under_way_; }
    // When the newest answer to a record was heard.
    void note_heard(std::int64_t now) noexcept { heard_at_ = now; }
    // Whether something is under way for so long, and nothing was heard since it was sent.
    bool is_silent(std::int64_t now, std::int64_t for_ms) const noexcept;

private:
    static constexpr std::uint32_t kNone = UINT32_MAX;

    enum class State : unsigned char
    {
        free,
        behind,  // another of the lane
        ready,   // to be sent
        sent,    // an answer is awaited
        waiting, // for its subject
    };

    struct Flight
    {
        Parcel parcel;
        std::int64_t sent_at = 0;
        std::uint64_t subject = 0;  // its hash: two that share one only wait for each other
        std::uint32_t next = kNone; // in the list of its state
        std::uint32_t previous = kNone;
        std::uint32_t behind = kNone; // the next one of its lane
        State state = State::free;
        bool was_sent = false;
    };

    struct List
    {
        std::uint32_t first = kNone;
        std::uint32_t last = kNone;
    };

    struct Subject
    {
        std::int64_t since = 0;
        std::int64_t retry_at = 0;
        std::int64_t used_at = 0;
        std::uint64_t probe = 0; // the token of what is under way to see whether that is over
        Backoff backoff;
        Failure failure;
    };

    struct Lane
    {
        std::uint32_t last = kNone;
        bool is_closed = false;
        FailureClass closed_by = FailureClass::none;
        std::size_t given_up = 0; // since then
    };

    Flight *under_way(std::uint64_t token) noexcept;
    List *list_of(State state) noexcept;
    void move(std::uint32_t index, State state) noexcept;
    void push(List &list, std::uint32_t index) noexcept;
    void unlink(List &list, std::uint32_t index) noexcept;
    void end(std::uint32_t index, const Failure *failure) noexcept;
    void end_lane(std::uint32_t index, const Failure &failure) noexcept;
    void subject_refuses(std::uint32_t index, const Failure &failure, std::int64_t now,
                         std::uint64_t random);
    Subject *trouble_of(std::uint32_t index) noexcept;
    void give_up_waiting(std::uint64_t subject, const Failure &failure) noexcept;
    void release_subject(std::uint64_t subject) noexcept;
    void forget_subjects(std::int64_t now) noexcept;
    std::uint32_t probe_of_subject(std::int64_t now) noexcept;
    std::uint32_t next_ready(std::int64_t now) noexcept;
    const Parcel *send(std::uint32_t index, std::int64_t now) noexcept;

    FlightRules rules_;
    FlightEnd &end_;
    std::vector<Flight> flights_;
    std::unordered_map<std::uint64_t, Lane> lanes_;
    std::unordered_map<std::uint64_t, Subject> subjects_; // in trouble, by their hashes
    List ready_;
    List sent_; // in the order in which they were sent
    List waiting_;
    std::size_t count_ = 0;
    std::size_t under_way_ = 0;
    bool in_trouble_ = false;
    std::int64_t retry_at_ = 0;
    std::int64_t heard_at_ = INT64_MIN;
    std::int64_t looked_at_ = 0;
    std::size_t isolated_ = 0;
    std::uint64_t probe_ = 0; // of the destination
    Backoff backoff_;
};

} // namespace outbox::nats
