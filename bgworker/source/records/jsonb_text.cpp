#include "extension/server/jsonb_walk.h"

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

// The text under way.
struct TextSink
{
    StringInfoData to;
    size_t limit;
    int depth_left;
    JsonbTextResult result;

    bool full()
    {
        if (static_cast<size_t>(to.len) > limit)
            result = JsonbTextResult::too_long;
        return result != JsonbTextResult::whole;
    }

    void plain(std::string_view text) { append_view(&to, text); }
    void numeric(Numeric value) { append_numeric(&to, value); }
    void enter()
    {
        if (depth_left-- == 0)
            result = JsonbTextResult::too_deep;
    }
    void leave() { depth_left++; }

    // In runs of characters that need no escape: most texts are one.
    void string(std::string_view text)
    {
        if (text.size() > limit)
        {
            result = JsonbTextResult::too_long;
            return;
        }
        plain("\"");
        size_t run = 0;
        for (;;)
        {
            const size_t special = find_special(text, run);
            plain(text.substr(run, special - run));
            if (special == text.size() || full())
                break;
            append_special(&to, static_cast<unsigned char>(text[special]));
            run = special + 1;
        }
        plain("\"");
    }
};

} // namespace

JsonbTextResult
jsonb_text(Jsonb *value, size_t limit, int depth, std::string_view *text)
{
    TextSink sink = {{}, limit, depth, JsonbTextResult::whole};
    initStringInfo(&sink.to);
    enlargeStringInfo(&sink.to, static_cast<int>(Min(VARSIZE(value), limit)));
    walk_container(sink, &value->root);
    (void) sink.full();
    *text = {sink.to.data, static_cast<size_t>(sink.to.len)};
    return sink.result;
}

} // namespace outbox
