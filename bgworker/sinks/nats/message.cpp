#include "message.h"

#include "text.h"

#include "bgworker/sinks/record_headers.h"

#include <nats/nats.h>

#include <charconv>
#include <climits>
#include <new>
#include <utility>

namespace outbox::nats
{

namespace
{

// What a server does with a message is said by headers of this name. An event must not say so.
constexpr std::string_view kReserved[] = {"nats-", "outbox-"};

bool
is_reserved(std::string_view name) noexcept
{
    for (const std::string_view prefix : kReserved)
    {
        bool same = name.size() >= prefix.size();
        for (std::size_t i = 0; same && i < prefix.size(); i++)
        {
            const char c = name[i];
            same = prefix[i] == (c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
        }
        if (same)
            return true;
    }
    return false;
}

// Every other failure of libnats's is one of memory.
void
check(natsStatus status)
{
    if (status != NATS_OK)
        throw std::bad_alloc();
}

bool
refuse_event(Failure &why, const char *name, std::string_view subject, const char *what)
{
    const std::string_view shown = clip(subject, 160);
    set_failure(why, FailureClass::event, name, "subject \"%.*s\" %s",
                static_cast<int>(shown.size()), shown.data(), what);
    return false;
}

} // namespace

void
DestroyMessage::operator()(__natsMsg *message) const noexcept
{
    natsMsg_Destroy(message);
}

MessageBuilder::MessageBuilder(const SubjectTemplate &subject, std::string inbox,
                               std::string stream)
    : template_(subject), inbox_(std::move(inbox)), stream_(std::move(stream))
{
}

// A repeat of an event is known by its id, for as long as the stream's duplicate_window is. A
// replay sends it once more on purpose.
void
MessageBuilder::set_id(natsMsg *message, const Record &record)
{
    value_.clear();
    append_text<is_for_header_value>(value_, id_of(record));
    if (value_.empty())
        return;
    if (const std::string_view replay = find_header(record, {"replay_id"}); !replay.empty())
    {
        value_ += '/';
        append_text<is_for_header_value>(value_, replay);
    }
    check(natsMsgHeader_Set(message, "Nats-Msg-Id", value_.c_str()));
}

bool
MessageBuilder::add_header(natsMsg *message, const Header &header, Failure &why)
{
    if (header.is_null)
        return true;
    if (is_reserved(header.name))
    {
        const std::string_view shown = clip(header.name, 64);
        set_failure(why, FailureClass::event, "RESERVED_HEADER",
                    "the header \"%.*s\" begins with \"Nats-\" or \"Outbox-\", which are the "
                    "server's and the relay's own",
                    static_cast<int>(shown.size()), shown.data());
        return false;
    }
    name_.clear();
    append_text<is_for_header_name>(name_, header.name);
    value_.clear();
    append_text<is_for_header_value>(value_, header.value);
    // Spaces at the ends are not kept by those who read headers.
    if (!value_.empty() && value_.front() == ' ')
        value_.replace(0, 1, "%20");
    if (!value_.empty() && value_.back() == ' ')
        value_.replace(value_.size() - 1, 1, "%20");
    // Without a value clients in C and others take the next header for it.
    if (!name_.empty() && !value_.empty())
        check(natsMsgHeader_Add(message, name_.c_str(), value_.c_str()));
    return true;
}

Message
MessageBuilder::build(const Record &record, std::uint64_t token, Failure &why)
{
    if (const char *fault = template_.expand(names_of(record), subject_))
    {
        refuse_event(why, "INVALID_SUBJECT", subject_, fault);
        return nullptr;
    }
    if (record.value_size > INT_MAX / 2)
    {
        refuse_event(why, "MESSAGE_TOO_LARGE", subject_, "has a payload that is too large");
        why.too_large = true;
        return nullptr;
    }
    char digits[20];
    const auto end = std::to_chars(digits, digits + sizeof digits, token, 16);
    reply_.assign(inbox_).append(1, '.').append(digits, end.ptr);

    natsMsg *made = nullptr;
    check(natsMsg_Create(&made, subject_.c_str(), reply_.c_str(),
                         record.tombstone ? nullptr : static_cast<const char *>(record.value),
                         record.tombstone ? 0 : static_cast<int>(record.value_size)));
    Message message(made);
    set_id(made, record);
    if (!stream_.empty())
        check(natsMsgHeader_Set(made, "Nats-Expected-Stream", stream_.c_str()));
    value_.clear();
    append_text<is_for_header_value>(value_, record.key);
    if (!value_.empty())
        check(natsMsgHeader_Set(made, kKeyHeader, value_.c_str()));
    if (record.tombstone)
        check(natsMsgHeader_Set(made, kTombstoneHeader, "true"));
    for (std::size_t i = 0; i < record.header_count; i++)
        if (!add_header(made, record.headers[i], why))
            return nullptr;
    return message;
}

bool
read_token(std::string_view subject, std::string_view inbox, std::uint64_t &token) noexcept
{
    if (subject.size() <= inbox.size() + 1 || subject.substr(0, inbox.size()) != inbox ||
        subject[inbox.size()] != '.')
        return false;
    subject.remove_prefix(inbox.size() + 1);
    const auto end = std::from_chars(subject.data(), subject.data() + subject.size(), token, 16);
    return end.ec == std::errc() && end.ptr == subject.data() + subject.size();
}

} // namespace outbox::nats
