#include "rows.h"

#include "errors.h"
#include "extension/core/json_text.h"
#include "units.h"

#include <cstdlib>
#include <stdexcept>

namespace outbox::ctl
{

namespace
{

// PostgreSQL's numbers for the types that become other JSON than text; they never change.
constexpr Oid kBool = 16;
constexpr Oid kInt8 = 20;
constexpr Oid kInt2 = 21;
constexpr Oid kInt4 = 23;
constexpr Oid kJson = 114;
constexpr Oid kFloat4 = 700;
constexpr Oid kFloat8 = 701;
constexpr Oid kTimestamptz = 1184;
constexpr Oid kNumeric = 1700;
constexpr Oid kJsonb = 3802;

// "2026-01-31 09:05:00.000123+00" as RFC 3339 wants it. Infinity stays as it is, and " BC", for
// which it has nothing, as PostgreSQL has it in JSON.
std::string
to_iso_time(std::string text)
{
    const std::size_t blank = text.find(' ');
    const std::size_t zone = text.find("+00");
    if (blank == std::string::npos || zone == std::string::npos)
        return text;
    text.replace(zone, 3, "Z");
    text[blank] = 'T';
    return text;
}

const std::string &
checked_json(const std::string &value, const std::string &column)
{
    if (!is_json(value))
        throw Error(kFailed,
                    "the server sent something as JSON in \"" + column + "\" that is none");
    return value;
}

} // namespace

int
Rows::index(const char *column) const
{
    const int found = PQfnumber(result_.get(), column);
    if (found < 0)
        throw std::logic_error(std::string("there is no column ") + column);
    return found;
}

Text
Rows::text(int row, const char *column) const
{
    const Text found = raw(row, column);
    return found ? Text(printable(*found)) : std::nullopt;
}

Text
Rows::raw(int row, const char *column) const
{
    const int number = index(column);
    if (PQgetisnull(result_.get(), row, number) != 0)
        return std::nullopt;
    std::string value = PQgetvalue(result_.get(), row, number);
    return PQftype(result_.get(), number) == kTimestamptz ? to_iso_time(value) : value;
}

Text
Rows::json(int row, const char *column) const
{
    const Text found = raw(row, column);
    return found ? Text(checked_json(*found, column)) : std::nullopt;
}

std::string
Rows::value(int row, const char *column, const char *if_null) const
{
    return text(row, column).value_or(if_null);
}

std::optional<long long>
Rows::number(int row, const char *column) const
{
    const Text found = raw(row, column);
    return found ? std::optional<long long>(std::strtoll(found->c_str(), nullptr, 10))
                 : std::nullopt;
}

std::optional<double>
Rows::real(int row, const char *column) const
{
    const Text found = raw(row, column);
    return found ? std::optional<double>(std::strtod(found->c_str(), nullptr)) : std::nullopt;
}

bool
Rows::flag(int row, const char *column) const
{
    return raw(row, column) == "t";
}

Json
Rows::field(int row, int column) const
{
    const char *name = PQfname(result_.get(), column);
    const Text found = raw(row, name);
    if (!found)
        return nullptr;
    switch (PQftype(result_.get(), column))
    {
    case kBool:
        return *found == "t";
    case kInt2:
    case kInt4:
    case kInt8:
    case kFloat4:
    case kFloat8:
    case kNumeric:
        return ctl::number(*found);
    case kJson:
    case kJsonb:
        return written(checked_json(*found, name));
    default:
        return *found;
    }
}

Json
Rows::object(int row) const
{
    Json result = Json::object();
    for (int column = 0; column < PQnfields(result_.get()); column++)
        result[PQfname(result_.get(), column)] = field(row, column);
    return result;
}

} // namespace outbox::ctl
