#include "kafka_config.h"

#include "characters.h"
#include "kafka_properties.h"

#include <algorithm>
#include <utility>

namespace outbox
{

namespace
{

constexpr std::size_t kMaxNameLength = 128;

constexpr const char *kPairsHint =
    "Write name=value pairs separated by blanks; quote a value that contains blanks as in "
    "name='a value', and write \\' for a quote and \\\\ for a backslash.";
constexpr const char *kFileHint =
    "Write one name=value a line; write \\\\ for a backslash in a value.";

bool
is_blank(char c) noexcept
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v';
}

bool
is_name(std::string_view text) noexcept
{
    return !text.empty() && text.size() <= kMaxNameLength &&
           std::all_of(text.begin(), text.end(), is_name_character);
}

ParsedConfig
fail(const Verdict &verdict)
{
    ParsedConfig failed;
    failed.verdict = verdict;
    return failed;
}

// What both notations refuse in any text.
Verdict
check_text(std::string_view text) noexcept
{
    if (text.size() > kMaxConfigBytes)
        return refuse("Keep large certificates in files of their own, named by the ssl.*.location "
                      "properties.",
                      "is larger than %zu bytes", kMaxConfigBytes);
    if (text.find('\0') != std::string_view::npos)
        return refuse("The text must be UTF-8 without zero bytes.", "contains a zero byte");
    return {};
}

// Reads name=value pairs from one text, front to back.
class PairReader
{
public:
    explicit PairReader(std::string_view text) : text_(text) {}

    ParsedConfig read();

private:
    bool at_end() const { return position_ == text_.size(); }
    void skip_blanks();
    Verdict read_name(std::string *name);
    Verdict read_value(std::string *value);
    Verdict read_quoted(std::string *value);
    Verdict wrong(const char *what, std::size_t position) const;

    std::string_view text_;
    std::size_t position_ = 0;
};

Verdict
PairReader::wrong(const char *what, std::size_t position) const
{
    return refuse(kPairsHint, "%s at character %zu", what, position + 1);
}

void
PairReader::skip_blanks()
{
    while (!at_end() && is_blank(text_[position_]))
        ++position_;
}

Verdict
PairReader::read_name(std::string *name)
{
    const std::size_t start = position_;
    while (!at_end() && text_[position_] != '=' && !is_blank(text_[position_]))
        ++position_;
    const std::string_view found = text_.substr(start, position_ - start);
    skip_blanks();
    if (at_end() || text_[position_] != '=')
        return wrong("has a name without \"=\"", start);
    if (!is_name(found))
        return wrong("has something that is not a property name", start);
    ++position_;
    *name = found;
    return {};
}

Verdict
PairReader::read_quoted(std::string *value)
{
    const std::size_t start = position_++;
    while (!at_end() && text_[position_] != '\'')
    {
        if (text_[position_] == '\\' && ++position_ == text_.size())
            break;
        value->push_back(text_[position_++]);
    }
    if (at_end())
        return wrong("has an unterminated quote", start);
    ++position_;
    if (!at_end() && !is_blank(text_[position_]))
        return wrong("has no blank after the closing quote", position_);
    return {};
}

Verdict
PairReader::read_value(std::string *value)
{
    skip_blanks();
    if (!at_end() && text_[position_] == '\'')
        return read_quoted(value);
    while (!at_end() && !is_blank(text_[position_]))
    {
        if (text_[position_] == '\\' && ++position_ == text_.size())
            return wrong("ends in a single backslash", position_ - 1);
        value->push_back(text_[position_++]);
    }
    return {};
}

ParsedConfig
PairReader::read()
{
    ParsedConfig config;
    for (skip_blanks(); !at_end(); skip_blanks())
    {
        Property property;
        Verdict verdict = read_name(&property.name);
        if (verdict.ok)
            verdict = read_value(&property.value);
        if (!verdict.ok)
            return fail(verdict);
        config.properties.push_back(std::move(property));
    }
    return config;
}

// Appends a character of the basic multilingual plane as UTF-8.
void
append_utf8(unsigned code, std::string *out)
{
    if (code < 0x80)
        out->push_back(static_cast<char>(code));
    else if (code < 0x800)
    {
        out->push_back(static_cast<char>(0xC0 | code >> 6));
        out->push_back(static_cast<char>(0x80 | (code & 0x3F)));
    }
    else
    {
        out->push_back(static_cast<char>(0xE0 | code >> 12));
        out->push_back(static_cast<char>(0x80 | (code >> 6 & 0x3F)));
        out->push_back(static_cast<char>(0x80 | (code & 0x3F)));
    }
}

// Reads the four hexadecimal digits at the start of `text`; 0 when they are not there, which is
// also what refuses \u0000.
unsigned
parse_hex4(std::string_view text) noexcept
{
    if (text.size() < 4)
        return 0;
    unsigned code = 0;
    for (char c : text.substr(0, 4))
    {
        const char lower = to_lower(c);
        if (!is_digit(c) && (lower < 'a' || lower > 'f'))
            return 0;
        code = code * 16 + static_cast<unsigned>(is_digit(c) ? c - '0' : lower - 'a' + 10);
    }
    return code;
}

// Reads a properties file line by line.
class FileReader
{
public:
    explicit FileReader(std::string_view text) : rest_(text) {}

    ParsedConfig read();

private:
    bool next_line(std::string_view *line);
    Verdict read_line(std::string_view line, Property *property);
    Verdict append_value(std::string_view line, std::string *value);
    Verdict append_escape(std::string_view *rest, std::string *value);
    Verdict wrong(const char *what) const;

    std::string_view rest_;
    std::size_t line_number_ = 0;
};

Verdict
FileReader::wrong(const char *what) const
{
    return refuse(kFileHint, "%s in line %zu", what, line_number_);
}

std::string_view
without_leading_blanks(std::string_view text) noexcept
{
    while (!text.empty() && is_blank(text.front()))
        text.remove_prefix(1);
    return text;
}

// Takes the next physical line, without its line break (LF or CRLF) and leading blanks.
bool
FileReader::next_line(std::string_view *line)
{
    if (rest_.empty())
        return false;
    ++line_number_;
    const std::size_t end = rest_.find('\n');
    *line = rest_.substr(0, end);
    rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
    if (!line->empty() && line->back() == '\r')
        line->remove_suffix(1);
    *line = without_leading_blanks(*line);
    return true;
}

// Resolves the escape at the start of `*rest`, which begins with a backslash that does not end the
// line.
Verdict
FileReader::append_escape(std::string_view *rest, std::string *value)
{
    constexpr std::string_view kLetters = "tnrf";
    constexpr std::string_view kMeanings = "\t\n\r\f";
    constexpr std::string_view kThemselves = "\\ =:#!";
    const char c = (*rest)[1];
    rest->remove_prefix(2);

    const std::size_t letter = kLetters.find(c);
    if (letter != std::string_view::npos)
        value->push_back(kMeanings[letter]);
    else if (kThemselves.find(c) != std::string_view::npos)
        value->push_back(c);
    else if (c == 'u')
    {
        const unsigned code = parse_hex4(*rest);
        if (code == 0 || (code >= 0xD800 && code <= 0xDFFF))
            return wrong("has a \\u escape that is not four hexadecimal digits of a character");
        append_utf8(code, value);
        rest->remove_prefix(4);
    }
    else
        return wrong("has a backslash before a character that needs none");
    return {};
}

// Appends the value's text in `line` and in the lines that continue it; blanks at the end are
// dropped unless escaped.
Verdict
FileReader::append_value(std::string_view line, std::string *value)
{
    std::size_t kept = 0; // length of *value up to the last character that is no unescaped blank
    while (!line.empty())
    {
        if (line == "\\")
        {
            if (!next_line(&line))
                return wrong("has a continuation but no next line");
            continue;
        }
        if (line.front() == '\\')
        {
            Verdict verdict = append_escape(&line, value);
            if (!verdict.ok)
                return verdict;
            kept = value->size();
            continue;
        }
        value->push_back(line.front());
        if (!is_blank(line.front()))
            kept = value->size();
        line.remove_prefix(1);
    }
    value->resize(kept);
    return {};
}

Verdict
FileReader::read_line(std::string_view line, Property *property)
{
    const std::size_t separator = line.find_first_of("=:");
    if (separator == std::string_view::npos)
        return wrong("has no \"=\"");
    std::string_view name = line.substr(0, separator);
    while (!name.empty() && is_blank(name.back()))
        name.remove_suffix(1);
    if (!is_name(name))
        return wrong("has something that is not a property name");
    property->name = name;
    return append_value(without_leading_blanks(line.substr(separator + 1)), &property->value);
}

ParsedConfig
FileReader::read()
{
    ParsedConfig config;
    for (std::string_view line; next_line(&line);)
    {
        if (line.empty() || line.front() == '#' || line.front() == '!')
            continue;
        Property property;
        property.from_file = true;
        const Verdict verdict = read_line(line, &property);
        if (!verdict.ok)
            return fail(verdict);
        config.properties.push_back(std::move(property));
    }
    return config;
}

} // namespace

ParsedConfig
parse_config_pairs(std::string_view text)
{
    const Verdict verdict = check_text(text);
    return verdict.ok ? PairReader(text).read() : fail(verdict);
}

ParsedConfig
parse_config_file(std::string_view text)
{
    constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
    if (text.substr(0, kByteOrderMark.size()) == kByteOrderMark)
        text.remove_prefix(kByteOrderMark.size());
    const Verdict verdict = check_text(text);
    return verdict.ok ? FileReader(text).read() : fail(verdict);
}

Verdict
check_properties(const std::vector<Property> &properties) noexcept
{
    for (const Property &property : properties)
    {
        const char *reason = nullptr;
        const char *hint = nullptr;
        if (property_allowed(property.name, property.value, &reason, &hint))
            continue;
        const std::string_view name = clip(property.name, 64);
        const std::string_view value = property.from_file || is_secret(property.name)
                                           ? "(not shown)"
                                           : clip(property.value, 64);
        return refuse(hint, "property \"%.*s\" with value \"%.*s\" %s",
                      static_cast<int>(name.size()), name.data(), static_cast<int>(value.size()),
                      value.data(), reason);
    }
    return {};
}

Verdict
check_no_secrets(const std::vector<Property> &properties) noexcept
{
    for (const Property &property : properties)
        if (is_secret(property.name))
        {
            const std::string_view name = clip(property.name, 64);
            return refuse("Write it into a file that only the server's user can read, and name "
                          "that in outbox.kafka_config_file.",
                          "property \"%.*s\" is a secret, and PostgreSQL's log and catalogues "
                          "would show it",
                          static_cast<int>(name.size()), name.data());
        }
    return {};
}

} // namespace outbox
