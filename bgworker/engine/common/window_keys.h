// The keys of a window's events, handed out in emission order with bounded memory.
#pragma once

#include "xid_snapshot.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace outbox
{

// A place in an index on (xid, seq).
struct IndexPoint
{
    std::uint64_t xid;
    std::int64_t seq;

    bool operator<(const IndexPoint &other) const noexcept
    {
        return xid != other.xid ? xid < other.xid : seq < other.seq;
    }
};

// A part of one partition's index, both ends included.
struct IndexRange
{
    int slot;
    IndexPoint first;
    IndexPoint last;
};

// Where a row is, in the caller's encoding.
using Locator = std::uint64_t;

struct EventKey
{
    std::int64_t seq;
    Locator locator;
    std::uint64_t xid;
};

// A window is what one snapshot sees and an earlier one does not. Its events must go out by seq,
// but the index that finds them is on (xid, seq). A small window is collected and sorted. A large
// one (a backlog of millions) is surveyed once: runs of neighbouring index entries become zones of
// which only the ends, the lowest seq and the count are kept. Then batches are collected from the
// zones that hold the lowest seqs. An event's seq is drawn after its xid, so zones overlap little,
// and each is read about twice however long the backlog is.
//
// The caller scans: while need_scan(), for each range of ranges(): begin_range(i), offer() for each
// index entry in the range, in index order; then finish_scan(). Then take keys with next().
class WindowKeys
{
public:
    // Keeps at most `capacity` keys in memory, and zones of at most `zone_size` (no more than
    // capacity) entries. Throws std::bad_alloc.
    WindowKeys(std::size_t capacity, std::size_t zone_size);

    // Starts on the events that `to` sees and `from` does not, with a seq above `after`, in the
    // partitions 0 to slots - 1. Throws std::bad_alloc.
    void open(const XidSnapshot &from, const XidSnapshot &to, std::int64_t after, int slots);

    bool need_scan() const noexcept { return next_ == keys_.size() && !ranges_.empty(); }
    const std::vector<IndexRange> &ranges() const noexcept { return ranges_; }
    void begin_range(std::size_t index) noexcept;

    // Returns false when memory or the place for keys runs out; the scan is then void and open()
    // must be called again.
    bool offer(std::uint64_t xid, std::int64_t seq, Locator locator) noexcept;

    // Throws std::bad_alloc.
    void finish_scan();

    // The next key, or nullptr when the window has no more. Stays valid until drop_next().
    const EventKey *next() const noexcept { return next_ < keys_.size() ? &keys_[next_] : nullptr; }
    void drop_next() noexcept { next_++; }

    // Keys not yet taken. Includes rows of transactions that rolled back: only the table knows.
    std::size_t remaining() const noexcept { return keys_.size() - next_ + in_zones_; }

private:
    struct Zone
    {
        IndexRange range;
        std::int64_t lowest;
        std::size_t count;
    };

    bool offer_to_survey(std::uint64_t xid, std::int64_t seq, Locator locator);
    bool offer_to_batch(std::uint64_t xid, std::int64_t seq, Locator locator);
    void extend_zone(std::uint64_t xid, std::int64_t seq);
    void finish_survey();
    void finish_batch();
    void plan_batch();

    const std::size_t capacity_;
    const std::size_t zone_size_;

    XidSnapshot from_;
    XidSnapshot to_;
    std::int64_t after_ = 0;

    std::vector<EventKey> keys_;
    std::size_t next_ = 0;

    std::vector<IndexRange> ranges_; // of the scan under way or to come
    std::size_t range_ = 0;          // the one being scanned

    bool surveying_ = false;
    std::vector<Zone> zones_; // once surveyed by lowest seq, ascending
    std::size_t surveyed_ = 0;
    std::size_t in_zones_ = 0;
    bool zone_open_ = false;

    std::size_t batch_zones_ = 0; // the first so many zones are in the batch
    std::int64_t limit_ = 0;      // and its keys are below this
};

} // namespace outbox
