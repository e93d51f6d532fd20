// The stored form of a numeric: PostgreSQL's utils/adt/numeric.c, unchanged since 9.1 except for
// the infinities of 14.
#pragma once

#include "pg.h"

namespace outbox
{

// Four decimal digits are stored in each 16-bit number, a group.
constexpr int kDigitsOfGroup = 4;

struct NumericForm
{
    const char *groups; // not always aligned
    int stored;         // how many groups are stored; those behind them are zero
    int weight;         // how many groups are before the point, less one
    int scale;          // digits shown after the point
    bool negative;
    bool special; // NaN or an infinity: nothing else is set

    int operator[](int number) const
    {
        int16 group = 0;
        if (number >= 0 && number < stored)
            memcpy(&group, groups + static_cast<size_t>(number) * sizeof(group), sizeof(group));
        return group;
    }
};

constexpr uint16 kFormMask = 0xC000;
constexpr uint16 kShortForm = 0x8000;

// Most numbers: up to 64 groups before the point and 63 digits behind it.
inline bool
has_short_form(Numeric value)
{
    uint16 header;
    memcpy(&header, VARDATA_ANY(value), sizeof(header));
    return (header & kFormMask) == kShortForm;
}

inline NumericForm
form_of(Numeric value)
{
    constexpr uint16 kNegativeForm = 0x4000;
    constexpr uint16 kSpecialForm = 0xC000;
    constexpr uint16 kLongScale = 0x3FFF;
    // The short form has all in 16 bits: its mark, the sign, the scale, and the weight in two's
    // complement. The long one has the weight in 16 more bits.
    constexpr uint16 kShortNegative = 0x2000;
    constexpr uint16 kShortScale = 0x1F80;
    constexpr int kShortScaleShift = 7;
    constexpr uint16 kShortWeightSign = 0x0040;
    constexpr uint16 kShortWeight = 0x003F;

    NumericForm form = {};
    const char *stored = VARDATA_ANY(value);
    const int size = static_cast<int>(VARSIZE_ANY_EXHDR(value));
    uint16 header;
    memcpy(&header, stored, sizeof(header));
    const uint16 kind = header & kFormMask;
    int header_size = sizeof(header);
    if (kind == kSpecialForm)
    {
        form.special = true;
        return form;
    }
    if (kind == kShortForm)
    {
        form.negative = (header & kShortNegative) != 0;
        form.scale = (header & kShortScale) >> kShortScaleShift;
        form.weight = header & kShortWeight;
        if ((header & kShortWeightSign) != 0)
            form.weight -= kShortWeightSign;
    }
    else
    {
        int16 weight;
        memcpy(&weight, stored + sizeof(header), sizeof(weight));
        header_size += static_cast<int>(sizeof(weight));
        form.negative = kind == kNegativeForm;
        form.scale = header & kLongScale;
        form.weight = weight;
    }
    form.groups = stored + header_size;
    form.stored = (size - header_size) / static_cast<int>(sizeof(int16));
    return form;
}

// Of a group without its leading zeros: one at least.
inline int
digits_of_group(int group)
{
    return group >= 1000 ? 4 : group >= 100 ? 3 : group >= 10 ? 2 : 1;
}

// How many bytes numeric_out() writes. Takes no time for numbers such as 1e131071.
inline int64
numeric_text_bytes(const NumericForm &form)
{
    constexpr int64 kLongestSpecial = sizeof("-Infinity") - 1;
    if (form.special)
        return kLongestSpecial;
    const int64 before =
        form.weight < 0 ? 1 : digits_of_group(form[0]) + kDigitsOfGroup * form.weight;
    return (form.negative ? 1 : 0) + before + (form.scale > 0 ? 1 + form.scale : 0);
}

} // namespace outbox
