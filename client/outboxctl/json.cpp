#include "json.h"

#include "characters.h"
#include "extension/core/json_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace outbox::ctl
{

namespace
{

constexpr std::size_t kStep = 2;
constexpr std::size_t kDeepestIndent = 40; // steps

constexpr const char *kReplacement = "\xef\xbf\xbd"; // U+FFFD

// Puts JSON together, token by token, on one line or indented.
class Writer
{
public:
    enum class Bytes // that are no UTF-8
    {
        kReplaced,
        kShown,
    };

    Writer(bool lines, Bytes bytes) : lines_(lines), bytes_(bytes) {}

    std::string take() { return std::move(text_); }

    void value(const Json &json)
    {
        switch (json.type())
        {
        case Json::value_t::string:
            string(json.get_ref<const std::string &>());
            break;
        case Json::value_t::object:
        case Json::value_t::array:
            container(json);
            break;
        case Json::value_t::binary:
        {
            const auto &bytes = json.get_binary();
            document({reinterpret_cast<const char *>(bytes.data()), bytes.size()});
            break;
        }
        default:
            text_ += json.dump();
        }
    }

    // As PostgreSQL wrote it. Strings are distinguished from the rest, and nothing is converted.
    void document(std::string_view json)
    {
        for (std::size_t i = 0; i < json.size();)
        {
            const char c = json[i];
            if (c == '"')
            {
                const std::size_t end = end_of_string(json, i);
                copy(json.substr(i, end - i));
                i = end;
                continue;
            }
            i++;
            if (c == '{' || c == '[')
            {
                i = skip_blanks(json, i);
                const bool empty = i < json.size() && json[i] == (c == '{' ? '}' : ']');
                text_ += c;
                if (empty)
                    text_ += json[i++];
                else
                    open();
            }
            else if (c == '}' || c == ']')
                close(c);
            else if (c == ',')
                comma();
            else if (c == ':')
                colon();
            else if (std::isspace(static_cast<unsigned char>(c)) == 0)
                text_ += is_of_literal(c) ? std::string(1, c) : kReplacement;
        }
    }

private:
    // Of a number, true, false or null. A server that is none may send anything.
    static bool is_of_literal(char c)
    {
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
               c == '+' || c == '-' || c == '.';
    }
    static std::size_t skip_blanks(std::string_view json, std::size_t i)
    {
        while (i < json.size() && std::isspace(static_cast<unsigned char>(json[i])) != 0)
            i++;
        return i;
    }

    static std::size_t end_of_string(std::string_view json, std::size_t begin)
    {
        std::size_t i = begin + 1;
        while (i < json.size() && json[i] != '"')
            i += json[i] == '\\' ? 2 : 1;
        return std::min(i + 1, json.size());
    }

    void container(const Json &json)
    {
        const bool object = json.is_object();
        text_ += object ? '{' : '[';
        if (json.empty())
        {
            text_ += object ? '}' : ']';
            return;
        }
        open();
        bool first = true;
        for (auto item = json.begin(); item != json.end(); ++item)
        {
            if (!first)
                comma();
            first = false;
            if (object)
            {
                string(item.key());
                colon();
            }
            value(*item);
        }
        close(object ? '}' : ']');
    }

    void new_line()
    {
        if (lines_)
            text_ += '\n' + std::string(kStep * std::min(depth_, kDeepestIndent), ' ');
    }
    void open()
    {
        depth_++;
        new_line();
    }
    void close(char c)
    {
        depth_ -= std::min<std::size_t>(depth_, 1);
        new_line();
        text_ += c;
    }
    void comma()
    {
        text_ += ',';
        new_line();
    }
    void colon() { text_ += lines_ ? ": " : ":"; }

    // Leaves the text before what is to be looked at; false when there is nothing.
    bool take_plain(std::string_view &value)
    {
        const std::size_t plain = plain_length(value);
        text_ += value.substr(0, plain);
        value.remove_prefix(plain);
        return !value.empty();
    }

    void string(std::string_view value)
    {
        text_ += '"';
        while (take_plain(value))
        {
            const Character character = first_character(value);
            if (character.code == '"' || character.code == '\\')
                text_.append(1, '\\').append(1, value[0]);
            else if (character.code == '\n')
                text_ += "\\n";
            else if (character.code == '\t')
                text_ += "\\t";
            else
                add(character);
            value.remove_prefix(character.bytes.size());
        }
        text_ += '"';
    }

    void copy(std::string_view value)
    {
        while (take_plain(value))
        {
            const Character character = first_character(value);
            add(character);
            value.remove_prefix(character.bytes.size());
        }
    }

    void add(const Character &character)
    {
        if (character.valid && is_hidden(character.code))
            text_ += json_escape(character.code);
        else if (character.valid)
            text_ += character.bytes;
        else if (bytes_ == Bytes::kShown)
            text_ += fmt::format("\\x{:02x}", character.code);
        else
            text_ += kReplacement;
    }

    const bool lines_;
    const Bytes bytes_;
    std::size_t depth_ = 0;
    std::string text_;
};

} // namespace

Json
written(std::string_view json)
{
    return Json::binary({json.begin(), json.end()});
}

Json
number(std::string_view text)
{
    return is_json_number(text) ? written(text) : Json(std::string(text));
}

std::string
to_line(const Json &json)
{
    Writer writer(false, Writer::Bytes::kReplaced);
    writer.value(json);
    return writer.take();
}

std::string
to_lines(const Json &json)
{
    Writer writer(true, Writer::Bytes::kReplaced);
    writer.value(json);
    return writer.take();
}

std::string
indented(std::string_view json)
{
    Writer writer(true, Writer::Bytes::kShown);
    writer.document(json);
    return writer.take();
}

} // namespace outbox::ctl
