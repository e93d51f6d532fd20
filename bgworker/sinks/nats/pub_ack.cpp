#include "pub_ack.h"

#include "extension/core/verdict.h"

#include <cstring>

namespace outbox::nats
{

namespace
{

constexpr int kMaxDepth = 16;

// Reads what an answer needs and skips the rest. No recursion deeper than kMaxDepth, no
// allocation.
class Reader
{
public:
    explicit Reader(std::string_view json) noexcept : rest_(json) {}

    bool read(Answer &answer) noexcept
    {
        if (!read_object(answer, Level::top, 0))
            return false;
        skip_spaces();
        return rest_.empty();
    }

private:
    enum class Level : unsigned char
    {
        top,
        error,
        other
    };

    void skip_spaces() noexcept
    {
        const std::size_t end = rest_.find_first_not_of(" \t\r\n");
        rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end);
    }

    bool take(char c) noexcept
    {
        skip_spaces();
        if (rest_.empty() || rest_.front() != c)
            return false;
        rest_.remove_prefix(1);
        return true;
    }

    // Its raw characters, escapes as they are: the names that matter have none.
    bool read_string(std::string_view &text) noexcept
    {
        if (!take('"'))
            return false;
        for (std::size_t i = 0; i < rest_.size(); i++)
        {
            if (static_cast<unsigned char>(rest_[i]) < ' ')
                return false;
            if (rest_[i] == '\\')
                i++;
            else if (rest_[i] == '"')
            {
                text = rest_.substr(0, i);
                rest_.remove_prefix(i + 1);
                return true;
            }
        }
        return false;
    }

    // A number, true, false or null.
    bool read_word(std::string_view &word) noexcept
    {
        skip_spaces();
        const std::size_t end = rest_.find_first_of(",]} \t\r\n");
        word = rest_.substr(0, end);
        rest_.remove_prefix(word.size());
        return !word.empty() && word.find_first_of("\"{[:") == std::string_view::npos;
    }

    bool skip_value(int depth) noexcept
    {
        Answer ignored;
        std::string_view text;
        skip_spaces();
        if (rest_.empty() || depth >= kMaxDepth)
            return false;
        switch (rest_.front())
        {
        case '{':
            return read_object(ignored, Level::other, depth + 1);
        case '[':
            return skip_array(depth + 1);
        case '"':
            return read_string(text);
        default:
            return read_word(text);
        }
    }

    bool skip_array(int depth) noexcept
    {
        if (!take('['))
            return false;
        if (take(']'))
            return true;
        do
        {
            if (!skip_value(depth))
                return false;
        } while (take(','));
        return take(']');
    }

    template <std::size_t N> static void copy(char (&to)[N], std::string_view from) noexcept
    {
        const std::string_view fitting = clip(from, N - 1);
        to[fitting.copy(to, N - 1)] = '\0';
        for (char *c = to; *c != '\0'; c++)
            if (static_cast<unsigned char>(*c) < ' ' || *c == '\x7f')
                *c = ' ';
    }

    static bool to_number(std::string_view word, std::uint64_t &number) noexcept
    {
        number = 0;
        for (const char c : word)
        {
            if (c < '0' || c > '9' || number > (UINT64_MAX - 9) / 10)
                return false;
            number = number * 10 + static_cast<std::uint64_t>(c - '0');
        }
        return !word.empty();
    }

    template <std::size_t N> bool read_text(char (&to)[N]) noexcept
    {
        std::string_view text;
        skip_spaces();
        if (rest_.empty() || rest_.front() != '"')
            return skip_value(kMaxDepth - 1);
        if (!read_string(text))
            return false;
        copy(to, text);
        return true;
    }

    bool read_small(int &to, int depth) noexcept
    {
        std::string_view word;
        std::uint64_t number = 0;
        skip_spaces();
        if (rest_.empty() || rest_.front() < '0' || rest_.front() > '9')
            return skip_value(depth);
        if (!read_word(word))
            return false;
        to = to_number(word, number) && number < 1000000 ? static_cast<int>(number) : 0;
        return true;
    }

    bool read_top(Answer &answer, std::string_view name, int depth) noexcept
    {
        std::string_view word;
        if (name == "stream")
            return read_text(answer.stream);
        if (name == "seq")
        {
            skip_spaces();
            if (rest_.empty() || rest_.front() < '0' || rest_.front() > '9')
                return skip_value(depth);
            return read_word(word) &&
                   (answer.has_sequence = to_number(word, answer.sequence), true);
        }
        if (name == "duplicate")
        {
            skip_spaces();
            answer.duplicate = rest_.substr(0, 4) == "true";
            return skip_value(depth);
        }
        if (name != "error")
            return skip_value(depth);
        skip_spaces();
        answer.has_error = true; // whatever is in it
        if (!rest_.empty() && rest_.front() == '{')
            return read_object(answer, Level::error, depth + 1);
        return skip_value(depth);
    }

    bool read_member(Answer &answer, Level level, std::string_view name, int depth) noexcept
    {
        if (level == Level::top)
            return read_top(answer, name, depth);
        if (level == Level::error && name == "code")
            return read_small(answer.http_code, depth);
        if (level == Level::error && name == "err_code")
            return read_small(answer.error_code, depth);
        if (level == Level::error && name == "description")
            return read_text(answer.description);
        return skip_value(depth);
    }

    bool read_object(Answer &answer, Level level, int depth) noexcept
    {
        if (!take('{'))
            return false;
        if (take('}'))
            return true;
        do
        {
            std::string_view name;
            if (!read_string(name) || !take(':') || !read_member(answer, level, name, depth))
                return false;
        } while (take(','));
        return take('}');
    }

    std::string_view rest_;
};

} // namespace

Answer
read_answer(std::string_view json) noexcept
{
    Answer answer;
    if (json.size() > kMaxAnswerSize)
        return answer;
    answer.is_json = Reader(json).read(answer);
    return answer;
}

} // namespace outbox::nats
