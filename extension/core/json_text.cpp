#include "json_text.h"

#include <algorithm>
#include <vector>

namespace outbox
{

namespace
{

bool
is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool
is_hex_digit(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

// Takes from the text what it begins with. What is open is kept here, not on the stack of calls,
// which deep nesting would use up: a byte at most for each of the text.
class Scan
{
public:
    explicit Scan(std::string_view text) : text_(text) {}

    bool at_end() const { return text_.empty(); }

    bool take_document()
    {
        bool value_before = false; // or else one is expected
        for (;;)
        {
            skip_blanks();
            if (!value_before && !take_value(value_before))
                return false;
            skip_blanks();
            if (!value_before)
                continue;
            if (open_.empty())
                return at_end();
            if (take(open_.back() == '{' ? "}" : "]"))
                open_.pop_back();
            else if (!take(",") || (open_.back() == '{' && !take_name()))
                return false;
            else
                value_before = false;
        }
    }

    bool take_number()
    {
        (void) take("-");
        if (!take("0") && !take_digits())
            return false;
        if (take(".") && !take_digits())
            return false;
        if (!take("e") && !take("E"))
            return true;
        (void) (take("-") || take("+"));
        return take_digits();
    }

private:
    bool take(std::string_view word)
    {
        const bool there = text_.substr(0, word.size()) == word;
        text_.remove_prefix(there ? word.size() : 0);
        return there;
    }

    void skip(std::size_t count) { text_.remove_prefix(std::min(count, text_.size())); }
    void skip_blanks() { skip(text_.find_first_not_of(" \t\n\r")); }

    bool take_digits()
    {
        const auto end = std::find_if_not(text_.begin(), text_.end(), is_digit);
        const auto count = static_cast<std::size_t>(end - text_.begin());
        skip(count);
        return count > 0;
    }

    // A whole value, or the beginning of one whose first value is expected then.
    bool take_value(bool &whole)
    {
        whole = true;
        if (take("["))
        {
            skip_blanks();
            whole = take("]");
            if (!whole)
                open_.push_back('[');
            return true;
        }
        if (take("{"))
        {
            skip_blanks();
            whole = take("}");
            if (!whole)
                open_.push_back('{');
            return whole || take_name();
        }
        return take_string() || take("true") || take("false") || take("null") || take_number();
    }

    bool take_name()
    {
        skip_blanks();
        if (!take_string())
            return false;
        skip_blanks();
        return take(":");
    }

    bool take_string()
    {
        if (!take("\""))
            return false;
        while (!at_end())
        {
            const char c = text_[0];
            if (static_cast<unsigned char>(c) < ' ')
                return false;
            skip(1);
            if (c == '"')
                return true;
            if (c == '\\' && !take_escaped())
                return false;
        }
        return false;
    }

    bool take_escaped()
    {
        if (take("u"))
        {
            const std::string_view digits = text_.substr(0, 4);
            skip(4);
            return digits.size() == 4 && std::all_of(digits.begin(), digits.end(), is_hex_digit);
        }
        const bool known =
            !at_end() && std::string_view("\"\\/bfnrt").find(text_[0]) != std::string_view::npos;
        skip(1);
        return known;
    }

    std::string_view text_;
    std::vector<char> open_; // { or [
};

} // namespace

bool
is_json(std::string_view text)
{
    return Scan(text).take_document();
}

bool
is_json_number(std::string_view text)
{
    Scan scan(text);
    return scan.take_number() && scan.at_end();
}

} // namespace outbox
