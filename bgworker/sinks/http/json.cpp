#include "message.h"

namespace outbox::http
{

namespace
{

// Goes through a text once. What is open is kept as a text of brackets, not on the stack.
class Walk
{
public:
    explicit Walk(std::string_view text) : text_(text) {}

    bool is_value()
    {
        bool complete = false;
        while (!complete)
        {
            if (!begin_value())
                return false;
            complete = open_.empty();
            while (!complete && ended_)
                if (!next_member(complete))
                    return false;
        }
        skip_space();
        return at_ == text_.size();
    }

private:
    char look() const { return at_ < text_.size() ? text_[at_] : '\0'; }
    bool take(char c)
    {
        if (look() != c || at_ == text_.size())
            return false;
        at_++;
        return true;
    }
    void skip_space()
    {
        while (at_ < text_.size() &&
               (look() == ' ' || look() == '\t' || look() == '\n' || look() == '\r'))
            at_++;
    }

    // Takes a value, or the beginning of one; ended_ says which.
    bool begin_value()
    {
        skip_space();
        ended_ = true;
        if (take('['))
        {
            skip_space();
            if (take(']'))
                return true;
            open_ += ']';
            ended_ = false;
            return true;
        }
        if (take('{'))
        {
            skip_space();
            if (take('}'))
                return true;
            open_ += '}';
            ended_ = false;
            return name();
        }
        return look() == '"' ? string() : look() == '-' || is_digit() ? number() : word();
    }

    // Behind a value: to the next one, or out of what it ends.
    bool next_member(bool &complete)
    {
        skip_space();
        if (take(','))
        {
            ended_ = false;
            return open_.back() == ']' || name();
        }
        if (!take(open_.back()))
            return false;
        open_.pop_back();
        complete = open_.empty();
        return true;
    }

    bool name()
    {
        skip_space();
        if (!string())
            return false;
        skip_space();
        return take(':');
    }

    bool string()
    {
        if (!take('"'))
            return false;
        while (at_ < text_.size())
        {
            const char c = text_[at_++];
            if (c == '"')
                return true;
            if (static_cast<unsigned char>(c) < 0x20 || (c == '\\' && !escape()))
                return false;
        }
        return false;
    }

    bool escape()
    {
        const char c = look();
        at_++;
        if (c != 'u')
            return c != '\0' && std::string_view("\"\\/bfnrt").find(c) != std::string_view::npos;
        for (int i = 0; i < 4; i++, at_++)
            if (look() == '\0' ||
                std::string_view("0123456789abcdefABCDEF").find(look()) == std::string_view::npos)
                return false;
        return true;
    }

    bool is_digit() const { return look() >= '0' && look() <= '9'; }
    bool digits()
    {
        if (!is_digit())
            return false;
        while (is_digit())
            at_++;
        return true;
    }
    bool number()
    {
        (void) take('-');
        if (!take('0') && !digits())
            return false;
        if (take('.') && !digits())
            return false;
        if (take('e') || take('E'))
        {
            if (!take('+'))
                (void) take('-');
            return digits();
        }
        return true;
    }

    bool word()
    {
        for (const std::string_view known : {"true", "false", "null"})
            if (text_.substr(at_, known.size()) == known)
            {
                at_ += known.size();
                return true;
            }
        return false;
    }

    std::string_view text_;
    std::size_t at_ = 0;
    std::string open_;
    bool ended_ = false;
};

} // namespace

bool
is_json(std::string_view text)
{
    return Walk(text).is_value();
}

} // namespace outbox::http
