// Which transactions had ended at a moment.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace outbox
{

// PostgreSQL's snapshot with 64-bit transaction ids, in the text form of its type pg_snapshot:
// "xmin:xmax:xip,xip,...". Every id below xmin had ended, every id from xmax on had not begun, and
// between them those listed were running.
class XidSnapshot
{
public:
    // Sees nothing: every transaction id is at or above its xmax.
    XidSnapshot() = default;

    // Returns false, and leaves `result` alone, unless `text` is a snapshot in the sense above.
    static bool parse(std::string_view text, XidSnapshot &result);

    std::string to_text() const;

    // Whether the transaction had ended, by commit or rollback. Visibility only grows: what one
    // snapshot sees, every later one sees.
    bool visible(std::uint64_t xid) const noexcept;

    std::uint64_t xmin() const noexcept { return xmin_; }
    std::uint64_t xmax() const noexcept { return xmax_; }

    // Running transactions, ascending.
    const std::vector<std::uint64_t> &running() const noexcept { return running_; }

    bool operator==(const XidSnapshot &other) const noexcept;

private:
    // Ids 0 to 2 are PostgreSQL's own; 3 is the first that a transaction can have.
    std::uint64_t xmin_ = 3;
    std::uint64_t xmax_ = 3;
    std::vector<std::uint64_t> running_;
};

} // namespace outbox

#ifdef POSTGRES_H
#error "bgworker/engine must be included before PostgreSQL headers and never include them"
#endif
