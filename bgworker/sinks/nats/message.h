// From a record to a NATS message.
#pragma once

#include "bgworker/engine/failure.h"
#include "bgworker/engine/record.h"

#include "subject.h"

#include <cstdint>
#include <memory>
#include <string>

struct __natsMsg;

namespace outbox::nats
{

struct DestroyMessage
{
    void operator()(__natsMsg *message) const noexcept;
};
using Message = std::unique_ptr<__natsMsg, DestroyMessage>;

// The header that holds a record's key, which NATS does not have, and one for a record without
// payload.
inline constexpr const char *kKeyHeader = "Outbox-Key";
inline constexpr const char *kTombstoneHeader = "Outbox-Tombstone";

class MessageBuilder
{
public:
    // `inbox`: where answers go to, followed by "." and a token. `stream`: that messages must go
    // to, or empty.
    MessageBuilder(const SubjectTemplate &subject, std::string inbox, std::string stream);

    // The message, or null and why there is none, of class event. May throw std::bad_alloc.
    Message build(const Record &record, std::uint64_t token, Failure &why);

    const std::string &inbox() const noexcept { return inbox_; }
    // The subject of the message that was built last.
    const std::string &subject() const noexcept { return subject_; }

private:
    bool add_header(__natsMsg *message, const Header &header, Failure &why);
    void set_id(__natsMsg *message, const Record &record);

    const SubjectTemplate &template_;
    const std::string inbox_;
    const std::string stream_;
    // Kept for their memory.
    std::string subject_;
    std::string reply_;
    std::string name_;
    std::string value_;
};

// The token of an answer that was sent to `subject`; false: it is none of the inbox's.
bool read_token(std::string_view subject, std::string_view inbox, std::uint64_t &token) noexcept;

} // namespace outbox::nats
