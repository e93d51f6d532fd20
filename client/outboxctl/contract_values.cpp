#include "contract_values.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace outbox::ctl
{

using nlohmann::json;

namespace
{

template <class Number>
int
sign_of_difference(Number a, Number b)
{
    return a < b ? -1 : b < a ? 1 : 0;
}

// An order of values in which those are equal that the draft takes for equal: numbers count by
// their values. nlohmann-json takes -1 for 18446744073709551615. The parser bounds how deep this
// goes.
int
compare(const json &a, const json &b)
{
    if (a.is_number() && b.is_number())
        return sign_of_difference(number_of(a), number_of(b));
    const auto kind = [](const json &value)
    { return value.is_number() ? json::value_t::number_float : value.type(); };
    if (kind(a) != kind(b) || a.is_string() || a.is_boolean())
        return kind(a) != kind(b) ? sign_of_difference(kind(a), kind(b)) : a < b ? -1 : b < a;
    if (a.size() != b.size() || !a.is_structured())
        return sign_of_difference(a.size(), b.size());
    for (auto one = a.begin(), other = b.begin(); one != a.end(); ++one, ++other)
    {
        const int names = a.is_object() ? one.key().compare(other.key()) : 0;
        const int difference = names != 0 ? names : compare(*one, *other);
        if (difference != 0)
            return difference;
    }
    return 0;
}

// Digits and a power of ten, without the sign.
struct Decimal
{
    std::uint64_t digits = 0;
    int exponent = 0;
};

Decimal
decimal_of(const json &value)
{
    if (value.is_number_unsigned())
        return {value.get<std::uint64_t>(), 0};
    if (value.is_number_integer())
    {
        const auto number = value.get<std::int64_t>();
        const auto bits = static_cast<std::uint64_t>(number);
        return {number < 0 ? 0 - bits : bits, 0};
    }
    std::array<char, 32> text = {}; // "1.2345678901234567e-308" at most
    const char *end = std::to_chars(text.data(), text.data() + text.size(),
                                    std::abs(value.get<double>()), std::chars_format::scientific)
                          .ptr;
    Decimal result;
    const char *at = text.data();
    bool fraction = false;
    for (; at != end && *at != 'e'; at++)
    {
        if (*at == '.')
        {
            fraction = true;
            continue;
        }
        result.digits = result.digits * 10 + static_cast<std::uint64_t>(*at - '0');
        result.exponent -= fraction ? 1 : 0;
    }
    int exponent = 0;
    at += at != end ? 1 : 0;
    at += at != end && *at == '+' ? 1 : 0;
    (void) std::from_chars(at, end, exponent);
    result.exponent += exponent;
    return result;
}

// What is left of ten times the number, which is below the divisor.
std::uint64_t
ten_times(std::uint64_t number, std::uint64_t divisor)
{
    std::uint64_t sum = 0;
    for (int i = 0; i < 10; i++)
        sum = sum >= divisor - number ? sum - (divisor - number) : sum + number;
    return sum;
}

} // namespace

long double
number_of(const json &value)
{
    if (value.is_number_unsigned())
        return static_cast<long double>(value.get<std::uint64_t>());
    return value.is_number_integer() ? static_cast<long double>(value.get<std::int64_t>())
                                     : static_cast<long double>(value.get<double>());
}

bool
is_whole(const json &value)
{
    return value.is_number_integer() ||
           (value.is_number_float() && std::trunc(value.get<double>()) == value.get<double>());
}

bool
is_count(const json &value)
{
    return is_whole(value) && number_of(value) >= 0;
}

std::uint64_t
count_of(const json &value)
{
    constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
    if (!value.is_number_float())
        return value.get<std::uint64_t>();
    const double number = value.get<double>();
    return number < static_cast<double>(kMost) ? static_cast<std::uint64_t>(number) : kMost;
}

// By what the author wrote: the shortest text that is this double, for 15 digits and more. In
// binary, neither 19.99 nor 0.01 is what it says.
bool
is_multiple(const json &value, const json &divisor)
{
    Decimal number = decimal_of(value);
    const Decimal by = decimal_of(divisor);
    // 0 is a multiple of all, and all that there is of a divisor that is 0 itself.
    if (number.digits == 0 || by.digits == 0)
        return number.digits == 0;
    int tens = number.exponent - by.exponent; // that the digits of the quotient have behind them
    for (; tens < 0; tens++, number.digits /= 10)
        if (number.digits % 10 != 0)
            return false;
    std::uint64_t rest = number.digits % by.digits;
    for (; tens > 0 && rest != 0; tens--)
        rest = ten_times(rest, by.digits);
    return rest == 0;
}

bool
is_equal(const json &a, const json &b)
{
    return compare(a, b) == 0;
}

bool
has_equal_items(const json &list)
{
    std::vector<const json *> items;
    for (const json &item : list)
        items.push_back(&item);
    std::sort(items.begin(), items.end(),
              [](const json *a, const json *b) { return compare(*a, *b) < 0; });
    return std::adjacent_find(items.begin(), items.end(),
                              [](const json *a, const json *b)
                              { return is_equal(*a, *b); }) != items.end();
}

} // namespace outbox::ctl
