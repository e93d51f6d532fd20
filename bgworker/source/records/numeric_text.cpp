#include "extension/server/numeric_form.h"

#include "numeric_text.h"

namespace outbox
{

namespace
{

// Writes `count` of the four digits of a group, from the left.
char *
write_group(char *at, int group, int count)
{
    const char digits[kDigitsOfGroup] = {
        static_cast<char>('0' + group / 1000), static_cast<char>('0' + group / 100 % 10),
        static_cast<char>('0' + group / 10 % 10), static_cast<char>('0' + group % 10)};
    memcpy(at, digits, static_cast<size_t>(count));
    return at + count;
}

// Without leading zeros.
char *
write_first_group(char *at, int group)
{
    const int count = digits_of_group(group);
    char digits[kDigitsOfGroup];
    (void) write_group(digits, group, kDigitsOfGroup);
    memcpy(at, digits + kDigitsOfGroup - count, static_cast<size_t>(count));
    return at + count;
}

char *
write_number(char *at, const NumericForm &form)
{
    if (form.negative)
        *at++ = '-';
    at = write_first_group(at, form.weight >= 0 ? form[0] : 0);
    for (int i = 1; i <= form.weight; i++)
        at = write_group(at, form[i], kDigitsOfGroup);
    if (form.scale > 0)
        *at++ = '.';
    for (int written = 0, i = form.weight + 1; written < form.scale; written += kDigitsOfGroup, i++)
        at = write_group(at, form[i], Min(kDigitsOfGroup, form.scale - written));
    return at;
}

} // namespace

void
append_numeric(StringInfo to, Numeric value)
{
    const NumericForm form = form_of(value);
    if (form.special)
    {
        char *text = DatumGetCString(DirectFunctionCall1(numeric_out, NumericGetDatum(value)));
        appendStringInfoString(to, text);
        pfree(text);
        return;
    }
    enlargeStringInfo(to, static_cast<int>(numeric_text_bytes(form)));
    char *const begin = to->data + to->len;
    to->len += static_cast<int>(write_number(begin, form) - begin);
    to->data[to->len] = '\0';
}

} // namespace outbox
