#include "extension/jsonb_walk.h"

#include "jsonb_text.h"

#include "numeric_text.h"

namespace outbox
{

namespace
{

// Without the zero byte at the end that only a C string needs.
inline void
append_view(StringInfo to, std::string_view text)
{
    const int size = static_cast<int>(text.size());
    if (to->len + size >= to->maxlen)
        enlargeStringInfo(to, size);
    memcpy(to->data + to->len, text.data(), text.size());
    to->len += size;
}

void
append_special(StringInfo to, unsigned char character)
{
    switch (character)
    {
    case '\b':
        return append_view(to, "\\b");
    case '\f':
        return append_view(to, "\\f");
    case '\n':
        return append_view(to, "\\n");
    case '\r':
        return append_view(to, "\\r");
    case '\t':
        return append_view(to, "\\t");
    case '"':
        return append_view(to, "\\\"");
    case '\\':
        return append_view(to, "\\\\");
    default:
        appendStringInfo(to, "\\u%04x", character);
    }
}

// In runs of characters that need no escape: most texts are one.
void
append_string(StringInfo to, std::string_view text)
{
    append_view(to, "\"");
    size_t run = 0;
    for (;;)
    {
        const size_t special = find_special(text, run);
        append_view(to, text.substr(run, special - run));
        if (special == text.size())
            break;
        append_special(to, static_cast<unsigned char>(text[special]));
        run = special + 1;
    }
    append_view(to, "\"");
}

struct TextSink
{
    StringInfo to;

    void plain(std::string_view text) { append_view(to, text); }
    void string(std::string_view text) { append_string(to, text); }
    void numeric(Numeric value) { append_numeric(to, value); }
    void enter() {}
    void leave() {}
};

} // namespace

std::string_view
jsonb_text(Jsonb *value)
{
    StringInfoData text;
    initStringInfo(&text);
    enlargeStringInfo(&text, static_cast<int>(VARSIZE(value)));
    TextSink sink = {&text};
    walk_container(sink, &value->root);
    return {text.data, static_cast<size_t>(text.len)};
}

} // namespace outbox
