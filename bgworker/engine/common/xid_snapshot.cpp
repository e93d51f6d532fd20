#include "xid_snapshot.h"

#include <algorithm>
#include <charconv>

namespace outbox
{

namespace
{

// Takes a number and the separator behind it off the front of `text`.
bool
take_number(std::string_view &text, char separator, std::uint64_t &number)
{
    const char *end = text.data() + text.size();
    const auto [next, error] = std::from_chars(text.data(), end, number);
    if (error != std::errc() || number == 0)
        return false;
    text.remove_prefix(static_cast<std::size_t>(next - text.data()));
    if (separator == '\0')
        return true;
    if (text.empty() || text.front() != separator)
        return false;
    text.remove_prefix(1);
    return true;
}

} // namespace

bool
XidSnapshot::parse(std::string_view text, XidSnapshot &result)
{
    XidSnapshot parsed;
    if (!take_number(text, ':', parsed.xmin_) || !take_number(text, ':', parsed.xmax_) ||
        parsed.xmin_ > parsed.xmax_)
        return false;
    while (!text.empty())
    {
        std::uint64_t xid = 0;
        if (!take_number(text, '\0', xid) || xid < parsed.xmin_ || xid >= parsed.xmax_ ||
            (!parsed.running_.empty() && xid <= parsed.running_.back()))
            return false;
        parsed.running_.push_back(xid);
        if (text.empty())
            break;
        if (text.front() != ',' || text.size() == 1)
            return false;
        text.remove_prefix(1);
    }
    result = std::move(parsed);
    return true;
}

std::string
XidSnapshot::to_text() const
{
    std::string text = std::to_string(xmin_) + ':' + std::to_string(xmax_) + ':';
    for (std::size_t i = 0; i < running_.size(); i++)
        text += (i == 0 ? "" : ",") + std::to_string(running_[i]);
    return text;
}

bool
XidSnapshot::visible(std::uint64_t xid) const noexcept
{
    if (xid < xmin_)
        return true;
    if (xid >= xmax_)
        return false;
    return !std::binary_search(running_.begin(), running_.end(), xid);
}

bool
XidSnapshot::operator==(const XidSnapshot &other) const noexcept
{
    return xmin_ == other.xmin_ && xmax_ == other.xmax_ && running_ == other.running_;
}

} // namespace outbox
