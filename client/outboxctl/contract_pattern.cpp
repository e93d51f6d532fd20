// Patterns of JSON Schema, which are those of ECMA-262, for std::regex, which differs from it.
#include "contract_schema.h"

#include "contract_formats.h"

#include "extension/core/characters.h"

namespace outbox::ctl
{

namespace
{

// What ECMA-262 takes for white space, and the rest; within brackets.
constexpr const wchar_t *kSpaces = L"\\t-\\r \\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f"
                                   L"\\u205f\\u3000\\ufeff";
const std::wstring kNoSpaces = L"\\0-\\x08\\x0e-\\x1f!-\\x9f\\u00a1-\\u167f\\u1681-\\u1fff"
                               L"\\u200b-\\u2027\\u202a-\\u202e\\u2030-\\u205e\\u2060-\\u2fff"
                               L"\\u3001-\\ufefe\\uff00-" +
                               std::wstring(1, static_cast<wchar_t>(0x10ffff));

std::wstring
escaped(wchar_t control)
{
    constexpr wchar_t kDigits[] = L"0123456789abcdef";
    return {L'\\', L'x', kDigits[control >> 4], kDigits[control & 15]};
}

// The same pattern in the words of std::regex.
class Translation
{
public:
    explicit Translation(std::wstring pattern) : pattern_(std::move(pattern)) {}

    std::wstring run()
    {
        for (place_ = 0; place_ < pattern_.size(); place_++)
            switch (const wchar_t c = pattern_[place_])
            {
            case L'\\':
                take_escape();
                break;
            case L'[': // in brackets, a class of POSIX would begin with it
                result_ += in_brackets_ ? L"\\[" : L"[";
                in_brackets_ = true;
                break;
            case L']':
                in_brackets_ = false;
                result_ += c;
                break;
            default:
                result_ += c;
            }
        return std::move(result_);
    }

private:
    void take_escape()
    {
        const wchar_t next = place_ + 1 < pattern_.size() ? pattern_[place_ + 1] : L'\0';
        const wchar_t letter = place_ + 2 < pattern_.size() ? pattern_[place_ + 2] : L'\0';
        if (next == L's' || next == L'S')
        {
            const std::wstring characters = next == L's' ? kSpaces : kNoSpaces;
            result_ += in_brackets_ ? characters : L"[" + characters + L"]";
            place_++;
        }
        else if (next == L'c' &&
                 ((letter >= L'a' && letter <= L'z') || (letter >= L'A' && letter <= L'Z')))
        {
            result_ += escaped(letter & 31);
            place_ += 2;
        }
        else
        {
            result_ += L'\\';
            if (place_ + 1 < pattern_.size())
                result_ += pattern_[++place_];
        }
    }

    const std::wstring pattern_;
    std::wstring result_;
    std::size_t place_ = 0;
    bool in_brackets_ = false;
};

} // namespace

std::wregex
compiled_pattern(const std::string &pattern)
{
    return std::wregex(Translation(characters_of(pattern)).run(), std::regex::ECMAScript);
}

} // namespace outbox::ctl
