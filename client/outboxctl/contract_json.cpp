#include "contract_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace outbox::ctl
{

namespace
{

using nlohmann::json;

constexpr std::size_t kDeepest = 64;

// Counts, for all its copies together, how many characters were taken.
class CountingIterator
{
public:
    using iterator_category = std::input_iterator_tag;
    using value_type = char;
    using difference_type = std::ptrdiff_t;
    using pointer = const char *;
    using reference = const char &;

    CountingIterator(const char *place, std::size_t &taken) : place_(place), taken_(&taken) {}

    reference operator*() const { return *place_; }
    CountingIterator &operator++()
    {
        ++place_;
        ++*taken_;
        return *this;
    }
    CountingIterator operator++(int)
    {
        const CountingIterator former = *this;
        ++*this;
        return former;
    }
    bool operator==(const CountingIterator &other) const { return place_ == other.place_; }
    bool operator!=(const CountingIterator &other) const { return place_ != other.place_; }

private:
    const char *place_;
    std::size_t *taken_;
};

// Builds the value from the parser's events.
class Builder : public nlohmann::json_sax<json>
{
public:
    Builder(const std::string &text, int first_line, const std::size_t &taken, Problems &problems)
        : text_(text), first_line_(first_line), taken_(taken), problems_(problems)
    {
    }

    LinedJson take() { return std::move(result_); }

    bool null() override { return add(nullptr); }
    bool boolean(bool value) override { return add(value); }
    bool number_integer(json::number_integer_t value) override { return add(value); }
    bool number_unsigned(json::number_unsigned_t value) override { return add(value); }
    bool number_float(json::number_float_t value, const std::string & /*text*/) override
    {
        return add(value);
    }
    bool string(std::string &value) override
    {
        note_zero(value);
        return add(value);
    }
    bool binary(json::binary_t & /*value*/) override { return false; } // JSON has none

    bool start_object(std::size_t /*size*/) override { return open(json::object()); }
    bool start_array(std::size_t /*size*/) override { return open(json::array()); }
    bool end_object() override { return close(); }
    bool end_array() override { return close(); }

    bool key(std::string &name) override
    {
        note_zero(name);
        Level &level = levels_.back();
        level.pointer = level.base + "/" + escaped_token(name);
        level.name = name;
        if (level.container->contains(name))
            return refuse(line(), "the name \"" + name + "\" is there twice");
        result_.lines[level.pointer] = line();
        return true;
    }

    bool parse_error(std::size_t position, const std::string & /*token*/,
                     const nlohmann::detail::exception &error) override
    {
        // "[json.exception.parse_error.101] parse error at line 3, column 5: what is wrong"
        const std::string text = error.what();
        const std::size_t colon = text.find(": ");
        return refuse(line_at(position),
                      "this is no JSON: " +
                          (colon == std::string::npos ? text : text.substr(colon + 2)));
    }

private:
    struct Level
    {
        json *container;
        std::string base;    // the pointer to the container
        std::string pointer; // to the member that comes next
        std::string name;
    };

    // The line of the character before the one at this place; a number is known to be over only
    // when one more has been read.
    int line_at(std::size_t position) const
    {
        const std::size_t count = std::min(position > 0 ? position - 1 : 0, text_.size());
        // From where the last one was: a count from the beginning for each would be quadratic.
        if (count < counted_)
            counted_ = lines_ = 0;
        lines_ += static_cast<std::size_t>(
            std::count(text_.begin() + static_cast<std::ptrdiff_t>(counted_),
                       text_.begin() + static_cast<std::ptrdiff_t>(count), '\n'));
        counted_ = count;
        return first_line_ + static_cast<int>(lines_);
    }
    int line() const { return line_at(taken_); }

    void note_zero(const std::string &text)
    {
        if (result_.zero_line == 0 && text.find('\0') != std::string::npos)
            result_.zero_line = line();
    }

    bool refuse(int line, const std::string &message)
    {
        problems_.push_back({line, message});
        return false;
    }

    // Where the value came to lie, and its pointer.
    std::pair<json *, std::string> place(json value)
    {
        if (levels_.empty())
        {
            result_.value = std::move(value);
            result_.lines[""] = line();
            return {&result_.value, ""};
        }
        const Level &level = levels_.back();
        if (level.container->is_object())
        {
            json &placed = (*level.container)[level.name];
            placed = std::move(value);
            return {&placed, level.pointer};
        }
        const std::string pointer = level.base + "/" + std::to_string(level.container->size());
        level.container->push_back(std::move(value));
        result_.lines[pointer] = line();
        return {&level.container->back(), pointer};
    }

    bool add(json value)
    {
        (void) place(std::move(value)); // only containers are gone on with
        return true;
    }

    // The container around it does not grow before this one is closed, so pointers stay good.
    bool open(json container)
    {
        if (levels_.size() == kDeepest)
            return refuse(line(), fmt::format("this is nested more than {} deep", kDeepest));
        const auto [placed, pointer] = place(std::move(container));
        levels_.push_back({placed, pointer, "", ""});
        return true;
    }

    bool close()
    {
        levels_.pop_back();
        return true;
    }

    const std::string &text_;
    int first_line_;
    const std::size_t &taken_;
    Problems &problems_;
    LinedJson result_;
    std::vector<Level> levels_;
    mutable std::size_t counted_ = 0; // characters, and
    mutable std::size_t lines_ = 0;   // lines that end in them
};

} // namespace

int
LinedJson::line_of(std::string pointer) const
{
    for (auto found = lines.find(pointer); !pointer.empty(); found = lines.find(pointer))
    {
        if (found != lines.end())
            return found->second;
        pointer.resize(pointer.rfind('/'));
    }
    return lines.at("");
}

std::optional<LinedJson>
read_json(const std::string &text, int first_line, Problems &problems)
{
    if (text.rfind("\xEF\xBB\xBF", 0) == 0) // the parser would pass over it
    {
        problems.push_back({first_line, "this begins with a byte order mark (U+FEFF); remove it"});
        return std::nullopt;
    }
    std::size_t taken = 0;
    Builder builder(text, first_line, taken, problems);
    const char *begin = text.data();
    if (!json::sax_parse(CountingIterator(begin, taken),
                         CountingIterator(begin + text.size(), taken), &builder))
        return std::nullopt;
    return builder.take();
}

std::string
escaped_token(const std::string &name)
{
    std::string result;
    for (const char c : name)
        if (c == '~')
            result += "~0";
        else if (c == '/')
            result += "~1";
        else
            result += c;
    return result;
}

} // namespace outbox::ctl
