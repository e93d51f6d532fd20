#include <array>

#include "jsonb_text.h"

#include "numeric_text.h"

namespace outbox
{

namespace
{

// Characters that escape_json() does not write as they are.
constexpr std::array<bool, 256>
special_characters()
{
    std::array<bool, 256> special = {};
    for (int i = 0; i < ' '; i++)
        special[static_cast<size_t>(i)] = true;
    special['"'] = true;
    special['\\'] = true;
    return special;
}

constexpr std::array<bool, 256> kSpecial = special_characters();

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

// The first special character at or after `from`, or the end. Looks at eight characters at a time:
// a byte b is below c exactly when b - c borrows and b has no high bit. A borrow from the byte
// before may raise a false alarm, never hide one; then each is looked at.
inline size_t
find_special(std::string_view text, size_t from)
{
    constexpr uint64 kOnes = UINT64CONST(0x0101010101010101);
    constexpr uint64 kHighBits = 0x80 * kOnes;
    const auto below = [](uint64 bytes, uint64 c) { return (bytes - c * kOnes) & ~bytes; };
    size_t at = from;
    for (; at + sizeof(uint64) <= text.size(); at += sizeof(uint64))
    {
        uint64 bytes;
        memcpy(&bytes, text.data() + at, sizeof(bytes));
        const uint64 found =
            below(bytes, ' ') | below(bytes ^ ('"' * kOnes), 1) | below(bytes ^ ('\\' * kOnes), 1);
        if ((found & kHighBits) != 0)
            break;
    }
    while (at < text.size() && !kSpecial[static_cast<unsigned char>(text[at])])
        at++;
    return at;
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

// Goes through the entries of a container. An entry knows its length or where it ends, and starts
// where the one before it ends.
class Entries
{
public:
    Entries(JsonbContainer *container, size_t values)
        : entry_(container->children), base_(reinterpret_cast<char *>(&container->children[values]))
    {
    }

    // Skips to the entry with this number.
    void skip_to(JsonbContainer *container, size_t number)
    {
        offset_ = getJsonbOffset(container, static_cast<int>(number));
        entry_ = &container->children[number];
    }

    JEntry entry() const { return *entry_; }
    std::string_view bytes() const { return {base_ + offset_, length()}; }
    // Numbers and containers are aligned.
    char *aligned() const { return base_ + INTALIGN(offset_); }

    void next()
    {
        offset_ += length();
        entry_++;
    }

private:
    uint32 length() const
    {
        const uint32 field = JBE_OFFLENFLD(*entry_);
        return JBE_HAS_OFF(*entry_) ? field - offset_ : field;
    }

    const JEntry *entry_;
    char *base_;
    uint32 offset_ = 0;
};

void append_container(StringInfo to, JsonbContainer *container);

void
append_value(StringInfo to, const Entries &at)
{
    const JEntry entry = at.entry();
    if (JBE_ISSTRING(entry))
        append_string(to, at.bytes());
    else if (JBE_ISNUMERIC(entry))
        append_numeric(to, reinterpret_cast<Numeric>(at.aligned()));
    else if (JBE_ISBOOL_TRUE(entry))
        append_view(to, "true");
    else if (JBE_ISBOOL_FALSE(entry))
        append_view(to, "false");
    else if (JBE_ISNULL(entry))
        append_view(to, "null");
    else
        append_container(to, reinterpret_cast<JsonbContainer *>(at.aligned()));
}

void
append_object(StringInfo to, JsonbContainer *container)
{
    const size_t pairs = JsonContainerSize(container);
    Entries key(container, 2 * pairs);
    Entries value(container, 2 * pairs);
    value.skip_to(container, pairs);
    append_view(to, "{");
    for (size_t i = 0; i < pairs; i++, key.next(), value.next())
    {
        if (i > 0)
            append_view(to, ", ");
        append_string(to, key.bytes());
        append_view(to, ": ");
        append_value(to, value);
    }
    append_view(to, "}");
}

void
append_array(StringInfo to, JsonbContainer *container)
{
    const size_t count = JsonContainerSize(container);
    const bool scalar = JsonContainerIsScalar(container);
    Entries item(container, count);
    if (!scalar)
        append_view(to, "[");
    for (size_t i = 0; i < count; i++, item.next())
    {
        if (i > 0)
            append_view(to, ", ");
        append_value(to, item);
    }
    if (!scalar)
        append_view(to, "]");
}

void
append_container(StringInfo to, JsonbContainer *container)
{
    check_stack_depth();
    if (JsonContainerIsObject(container))
        append_object(to, container);
    else
        append_array(to, container);
}

} // namespace

std::string_view
jsonb_text(Jsonb *value)
{
    StringInfoData text;
    initStringInfo(&text);
    enlargeStringInfo(&text, static_cast<int>(VARSIZE(value)));
    append_container(&text, &value->root);
    return {text.data, static_cast<size_t>(text.len)};
}

} // namespace outbox
