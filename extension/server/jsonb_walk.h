// Goes through the text of a jsonb value piece by piece, for those that write it and for those that
// only measure it. Layout of jsonb: utils/jsonb.h.
#pragma once

#include "pg.h"

#include <array>
#include <string_view>

namespace outbox
{

// Characters that PostgreSQL's escape_json() does not write as they are.
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

// Goes through the entries of a container. An entry knows its length or where it ends, and starts
// where the one before it ends.
class JsonbEntries
{
public:
    JsonbEntries(JsonbContainer *container, size_t values)
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

// Hands the names and values of an object's members to `use`, in the order that jsonb keeps them; a
// value that is a container is not gone into.
template <class Use>
void
for_each_member(Jsonb *object, Use use)
{
    JsonbIterator *iterator = JsonbIteratorInit(&object->root);
    JsonbValue name;
    JsonbValue value;
    JsonbIteratorToken token;
    while ((token = JsonbIteratorNext(&iterator, &name, true)) != WJB_DONE)
    {
        if (token != WJB_KEY)
            continue;
        (void) JsonbIteratorNext(&iterator, &value, true);
        use(name, value);
    }
}

template <class Sink> void walk_container(Sink &sink, JsonbContainer *container);

template <class Sink>
void
walk_value(Sink &sink, const JsonbEntries &at)
{
    const JEntry entry = at.entry();
    if (JBE_ISSTRING(entry))
        sink.string(at.bytes());
    else if (JBE_ISNUMERIC(entry))
        sink.numeric(reinterpret_cast<Numeric>(at.aligned()));
    else if (JBE_ISBOOL_TRUE(entry))
        sink.plain("true");
    else if (JBE_ISBOOL_FALSE(entry))
        sink.plain("false");
    else if (JBE_ISNULL(entry))
        sink.plain("null");
    else
        walk_container(sink, reinterpret_cast<JsonbContainer *>(at.aligned()));
}

template <class Sink>
void
walk_object(Sink &sink, JsonbContainer *container)
{
    const size_t pairs = JsonContainerSize(container);
    JsonbEntries key(container, 2 * pairs);
    JsonbEntries value(container, 2 * pairs);
    value.skip_to(container, pairs);
    sink.plain("{");
    for (size_t i = 0; i < pairs && !sink.full(); i++, key.next(), value.next())
    {
        if (i > 0)
            sink.plain(", ");
        sink.string(key.bytes());
        sink.plain(": ");
        walk_value(sink, value);
    }
    sink.plain("}");
}

template <class Sink>
void
walk_array(Sink &sink, JsonbContainer *container)
{
    const size_t count = JsonContainerSize(container);
    const bool scalar = JsonContainerIsScalar(container);
    JsonbEntries item(container, count);
    if (!scalar)
        sink.plain("[");
    for (size_t i = 0; i < count && !sink.full(); i++, item.next())
    {
        if (i > 0)
            sink.plain(", ");
        walk_value(sink, item);
    }
    if (!scalar)
        sink.plain("]");
}

// A sink has plain(text), string(text before it is quoted), numeric(value), enter() and leave(),
// and full(): once that is so, the rest is left out. Raises statement_too_complex where the stack
// ends.
template <class Sink>
void
walk_container(Sink &sink, JsonbContainer *container)
{
    check_stack_depth();
    sink.enter();
    if (JsonContainerIsObject(container))
        walk_object(sink, container);
    else
        walk_array(sink, container);
    sink.leave();
}

} // namespace outbox
