#include "contract_values.h"

#include <algorithm>
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

// Neither 19.99 nor 0.01 is what it says in binary, so the quotient is whole but for what that
// costs.
bool
is_multiple(const json &value, const json &divisor)
{
    const long double number = number_of(value);
    const long double by = number_of(divisor);
    if (is_whole(value) && is_whole(divisor))
        return std::fmod(number, by) == 0;
    const long double quotient = number / by;
    return std::abs(quotient - std::round(quotient)) <=
           4 * static_cast<long double>(std::numeric_limits<double>::epsilon()) *
               std::abs(quotient);
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
