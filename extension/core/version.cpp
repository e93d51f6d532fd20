#include "version.h"

#include <charconv>

namespace outbox
{

namespace
{

// Takes the number before the next dot; 0 when nothing is left. False when that is no number.
bool
read_number(std::string_view *rest, unsigned *number)
{
    *number = 0;
    if (rest->empty())
        return true;
    const std::size_t dot = rest->find('.');
    const std::string_view digits = rest->substr(0, dot);
    const char *end = digits.data() + digits.size();
    const auto [stop, error] = std::from_chars(digits.data(), end, *number);
    if (error != std::errc() || stop != end || dot + 1 == rest->size())
        return false;
    *rest = dot == std::string_view::npos ? std::string_view() : rest->substr(dot + 1);
    return true;
}

bool
is_version(std::string_view text)
{
    unsigned number;
    if (text.empty())
        return false;
    while (!text.empty())
        if (!read_number(&text, &number))
            return false;
    return true;
}

} // namespace

int
compare_versions(std::string_view a, std::string_view b)
{
    const bool a_counts = is_version(a), b_counts = is_version(b);
    if (!a_counts || !b_counts)
        return a_counts != b_counts ? (a_counts ? 1 : -1) : a.compare(b);
    while (!a.empty() || !b.empty())
    {
        unsigned from_a = 0, from_b = 0;
        if (!read_number(&a, &from_a) || !read_number(&b, &from_b))
            break; // cannot be: both were read before
        if (from_a != from_b)
            return from_a < from_b ? -1 : 1;
    }
    return 0;
}

} // namespace outbox
