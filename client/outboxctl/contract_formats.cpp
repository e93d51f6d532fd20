#include "contract_formats.h"

#include "characters.h"

#include "extension/core/characters.h"

#include <string_view>

namespace outbox::ctl
{

namespace
{

// Takes digits and signs from the beginning of a text.
class Taker
{
public:
    explicit Taker(std::string_view text) : rest_(text) {}

    // -1 when there are not so many digits.
    int digits(std::size_t count)
    {
        int number = 0;
        for (std::size_t i = 0; i < count; i++)
        {
            if (i >= rest_.size() || !is_digit(rest_[i]))
                return -1;
            number = number * 10 + (rest_[i] - '0');
        }
        rest_.remove_prefix(count);
        return number;
    }
    bool one_of(std::string_view characters)
    {
        const bool found = !rest_.empty() && characters.find(rest_[0]) != std::string_view::npos;
        if (found)
            rest_.remove_prefix(1);
        return found;
    }
    bool at_end() const { return rest_.empty(); }

private:
    std::string_view rest_;
};

bool
between(int number, int least, int most)
{
    return number >= least && number <= most;
}

bool
take_date(Taker &text)
{
    constexpr int kDays[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    const int year = text.digits(4);
    if (year < 0 || !text.one_of("-"))
        return false;
    const int month = text.digits(2);
    if (!between(month, 1, 12) || !text.one_of("-"))
        return false;
    const bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return between(text.digits(2), 1, kDays[month - 1] + (month == 2 && leap ? 1 : 0));
}

// "hh:mm" in minutes; -1 when it is not that.
int
take_minutes(Taker &text)
{
    const int hours = text.digits(2);
    if (!between(hours, 0, 23) || !text.one_of(":"))
        return -1;
    const int minutes = text.digits(2);
    return between(minutes, 0, 59) ? hours * 60 + minutes : -1;
}

// With its zone, as RFC 3339 wants it; a leap second is the last one of a day in UTC.
bool
take_time(Taker &text)
{
    constexpr int kDay = 24 * 60; // minutes
    const int time = take_minutes(text);
    if (time < 0 || !text.one_of(":"))
        return false;
    const int second = text.digits(2);
    if (!between(second, 0, 60))
        return false;
    if (text.one_of("."))
    {
        if (text.digits(1) < 0)
            return false;
        while (text.digits(1) >= 0)
            continue;
    }
    int ahead = 0; // of UTC, in minutes
    if (!text.one_of("Zz"))
    {
        const bool behind = text.one_of("-");
        if (!behind && !text.one_of("+"))
            return false;
        const int zone = take_minutes(text);
        if (zone < 0)
            return false;
        ahead = behind ? -zone : zone;
    }
    return second < 60 || (time - ahead + kDay) % kDay == kDay - 1;
}

} // namespace

bool
has_format(const std::string &text, const std::string &format)
{
    Taker rest(text);
    if (format == "date")
        return take_date(rest) && rest.at_end();
    if (format == "time")
        return take_time(rest) && rest.at_end();
    if (format == "date-time")
        return take_date(rest) && rest.one_of("Tt") && take_time(rest) && rest.at_end();
    return true;
}

std::wstring
characters_of(const std::string &text)
{
    static_assert(sizeof(wchar_t) >= 4, "a wchar_t holds each character");
    std::wstring result;
    for (std::string_view rest = text; !rest.empty();)
    {
        const Character character = first_character(rest);
        result += static_cast<wchar_t>(character.code);
        rest.remove_prefix(character.bytes.size());
    }
    return result;
}

} // namespace outbox::ctl
