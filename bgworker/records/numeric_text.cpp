#include "numeric_text.h"

namespace outbox
{

namespace
{

// The header of the short form: two bits that say so, the sign, six bits for the digits shown after
// the point, and seven for the weight: how many groups of four digits are before the point, less
// one, in two's complement.
constexpr uint16 kFormMask = 0xC000;
constexpr uint16 kShortForm = 0x8000;
constexpr uint16 kNegative = 0x2000;
constexpr uint16 kScaleMask = 0x1F80;
constexpr int kScaleShift = 7;
constexpr uint16 kWeightSign = 0x0040;
constexpr uint16 kWeightMask = 0x003F;
constexpr int kGroup = 4;

// The stored groups, zero where none is stored. They need not be aligned.
struct Groups
{
    const char *first;
    int stored;

    int operator[](int number) const
    {
        int16 group = 0;
        if (number >= 0 && number < stored)
            memcpy(&group, first + static_cast<size_t>(number) * sizeof(group), sizeof(group));
        return group;
    }
};

// Writes `count` of the four digits of a group, from the left.
char *
write_group(char *at, int group, int count)
{
    const char digits[kGroup] = {
        static_cast<char>('0' + group / 1000), static_cast<char>('0' + group / 100 % 10),
        static_cast<char>('0' + group / 10 % 10), static_cast<char>('0' + group % 10)};
    memcpy(at, digits, static_cast<size_t>(count));
    return at + count;
}

// Without leading zeros.
char *
write_first_group(char *at, int group)
{
    const int count = group >= 1000 ? 4 : group >= 100 ? 3 : group >= 10 ? 2 : 1;
    char digits[kGroup];
    (void) write_group(digits, group, kGroup);
    memcpy(at, digits + kGroup - count, static_cast<size_t>(count));
    return at + count;
}

char *
write_short(char *at, uint16 header, const Groups &groups)
{
    const int scale = (header & kScaleMask) >> kScaleShift;
    const int weight =
        (header & kWeightSign) != 0 ? (header & kWeightMask) - kWeightSign : header & kWeightMask;
    if ((header & kNegative) != 0)
        *at++ = '-';
    at = write_first_group(at, weight >= 0 ? groups[0] : 0);
    for (int i = 1; i <= weight; i++)
        at = write_group(at, groups[i], kGroup);
    if (scale > 0)
        *at++ = '.';
    for (int written = 0, i = weight + 1; written < scale; written += kGroup, i++)
        at = write_group(at, groups[i], Min(kGroup, scale - written));
    return at;
}

} // namespace

void
append_numeric(StringInfo to, Numeric value)
{
    constexpr int kLongest =
        1 + (kWeightMask + 1) * kGroup + 1 + (kScaleMask >> kScaleShift) + kGroup;
    const char *stored = VARDATA_ANY(value);
    const int size = static_cast<int>(VARSIZE_ANY_EXHDR(value));
    uint16 header;
    memcpy(&header, stored, sizeof(header));
    if ((header & kFormMask) != kShortForm)
    {
        appendStringInfoString(
            to, DatumGetCString(DirectFunctionCall1(numeric_out, NumericGetDatum(value))));
        return;
    }
    enlargeStringInfo(to, kLongest);
    char *const begin = to->data + to->len;
    const Groups groups = {stored + sizeof(header), (size - static_cast<int>(sizeof(header))) / 2};
    to->len += static_cast<int>(write_short(begin, header, groups) - begin);
    to->data[to->len] = '\0';
}

} // namespace outbox
