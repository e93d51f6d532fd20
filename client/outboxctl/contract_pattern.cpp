// Reads patterns.
#include "contract_pattern.h"

#include "contract_characters.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace outbox::ctl
{

namespace
{

using Operation = Pattern::Operation;
using Code = std::vector<Pattern::Instruction>;
using Characters = Pattern::Characters;

constexpr std::size_t kMostTurns = 1000000000; // texts are shorter

std::ptrdiff_t
signed_of(std::size_t number)
{
    return static_cast<std::ptrdiff_t>(number);
}

// A part of a pattern.
struct Part
{
    Code code;
    bool may_be_empty = true;
    bool repeatable = true;
};

void
append(Code &code, const Code &more)
{
    code.insert(code.end(), more.begin(), more.end());
}

class Reader
{
public:
    explicit Reader(const std::wstring &text) : text_(text), scan_(text) {}

    Pattern::Program read()
    {
        program_.groups = count_groups();
        program_.code = read_alternatives().code;
        if (!at_end())
            refuse("no ( belongs to this )", place_);
        program_.code.push_back({Operation::kDone});
        return std::move(program_);
    }

private:
    [[noreturn]] static void refuse(const std::string &why, std::size_t place)
    {
        refuse_pattern(why, place);
    }

    bool at_end() const { return place_ >= text_.size(); }
    bool take(wchar_t c)
    {
        const bool there = !at_end() && text_[place_] == c;
        place_ += there ? 1 : 0;
        return there;
    }
    bool take(const wchar_t *word)
    {
        const bool there = text_.compare(place_, std::wcslen(word), word) == 0;
        place_ += there ? std::wcslen(word) : 0;
        return there;
    }

    // Capturing ones, behind this place, too.
    std::size_t count_groups() const
    {
        std::size_t count = 0;
        bool in_brackets = false;
        for (std::size_t i = 0; i < text_.size(); i++)
            if (text_[i] == L'\\')
                i++;
            else if (text_[i] == L'[' || text_[i] == L']')
                in_brackets = text_[i] == L'[';
            else if (!in_brackets && text_[i] == L'(' && text_.compare(i, 2, L"(?") != 0)
                count++;
        return count;
    }

    Part read_alternatives()
    {
        Part part = read_sequence();
        while (take(L'|'))
        {
            const Part other = read_sequence();
            Code code = {{Operation::kFork, 1, signed_of(part.code.size()) + 2}};
            append(code, part.code);
            code.push_back({Operation::kJump, signed_of(other.code.size()) + 1});
            append(code, other.code);
            part.code = std::move(code);
            part.may_be_empty = part.may_be_empty || other.may_be_empty;
        }
        return part;
    }

    Part read_sequence()
    {
        Part whole;
        while (!at_end() && text_[place_] != L'|' && text_[place_] != L')')
        {
            const std::size_t first_group = groups_;
            Part part = read_atom();
            if (part.repeatable)
                part = read_quantifier(std::move(part), first_group);
            append(whole.code, part.code);
            whole.may_be_empty = whole.may_be_empty && part.may_be_empty;
        }
        return whole;
    }

    Part read_atom()
    {
        const std::size_t place = place_;
        switch (const wchar_t c = text_[place_++])
        {
        case L'^':
            return {{{Operation::kBegin}}, true, false};
        case L'$':
            return {{{Operation::kEnd}}, true, false};
        case L'(':
            return read_group(place);
        case L'[':
            return set(scan_.brackets(place_));
        case L'.':
            return set(complement({{L'\n', L'\n'}, {L'\r', L'\r'}, {0x2028, 0x2029}}));
        case L'\\':
            return read_escape(place);
        case L'*':
        case L'+':
        case L'?':
            refuse("there is nothing that could be repeated", place);
        case L'{':
            refuse("this { repeats nothing; as a character it is written \\{", place);
        default:
            return {{{Operation::kCharacter, c}}, false};
        }
    }

    Part set(Characters characters)
    {
        program_.sets.push_back(std::move(characters));
        return {{{Operation::kSet, signed_of(program_.sets.size()) - 1}}, false};
    }

    Part read_group(std::size_t place)
    {
        if (take(L"?:"))
        {
            Part part = read_alternatives();
            close(place);
            return part;
        }
        const bool wanted = take(L"?=");
        if (wanted || take(L"?!"))
        {
            const Part part = read_alternatives();
            close(place);
            Code code = {{Operation::kAhead, wanted ? 0 : 1, signed_of(part.code.size()) + 2}};
            append(code, part.code);
            code.push_back({Operation::kDone});
            return {std::move(code), true, false};
        }
        if (take(L'?'))
            refuse("of the groups with (? those with (?:, (?= and (?! are known", place);
        const std::ptrdiff_t number = signed_of(groups_++);
        const Part part = read_alternatives();
        close(place);
        Code code = {{Operation::kOpen, number}};
        append(code, part.code);
        code.push_back({Operation::kClose, number});
        return {std::move(code), part.may_be_empty};
    }

    void close(std::size_t opened)
    {
        if (!take(L')'))
            refuse("no ) belongs to this (", opened);
    }

    Part read_escape(std::size_t place)
    {
        const wchar_t c = at_end() ? L'\0' : text_[place_];
        if (c == L'b' || c == L'B')
        {
            place_++;
            return {{{Operation::kWordBoundary, c == L'B' ? 1 : 0}}, true, false};
        }
        if (c >= L'1' && c <= L'9')
        {
            const std::size_t number = read_number();
            if (number > program_.groups)
                refuse(fmt::format("there is no group {}", number), place);
            return {{{Operation::kBackReference, signed_of(number) - 1}}};
        }
        const ScannedCharacter one = scan_.escape(place_);
        if (one.is_set)
            return set(one.set);
        return {{{Operation::kCharacter, one.character}}, false};
    }

    bool at_digit() const { return !at_end() && text_[place_] >= L'0' && text_[place_] <= L'9'; }

    std::size_t read_number()
    {
        std::size_t number = 0;
        while (at_digit())
            number = std::min(kMostTurns,
                              number * 10 + static_cast<std::size_t>(text_[place_++] - L'0'));
        return number;
    }

    Part read_quantifier(Part part, std::size_t first_group)
    {
        Pattern::Loop loop;
        loop.first_group = first_group;
        loop.end_group = groups_;
        const std::size_t place = place_;
        if (take(L'*'))
            loop.most = Pattern::kNoEnd;
        else if (take(L'+'))
        {
            loop.least = 1;
            loop.most = Pattern::kNoEnd;
        }
        else if (take(L'?'))
            loop.most = 1;
        else if (take(L'{'))
            read_braces(loop, place);
        else
            return part;
        loop.greedy = !take(L'?');
        return repeat(part, loop);
    }

    void read_braces(Pattern::Loop &loop, std::size_t place)
    {
        bool good = at_digit();
        loop.least = loop.most = read_number();
        if (take(L','))
            loop.most = at_digit() ? read_number() : Pattern::kNoEnd;
        good = good && take(L'}');
        if (!good)
            refuse("this { repeats nothing; as a character it is written \\{", place);
        if (loop.least > loop.most)
            refuse("the least number of repetitions is above the largest one", place);
    }

    Part repeat(const Part &part, const Pattern::Loop &loop)
    {
        const std::ptrdiff_t size = signed_of(part.code.size());
        const bool may_be_empty = part.may_be_empty || loop.least == 0;
        const bool plain = loop.least == 0 && !part.may_be_empty &&
                           loop.first_group == loop.end_group &&
                           (loop.most == 1 || loop.most == Pattern::kNoEnd);
        Code code;
        if (plain)
        {
            const std::ptrdiff_t behind = loop.most == 1 ? size + 1 : size + 2;
            code.push_back(loop.greedy ? Pattern::Instruction{Operation::kFork, 1, behind}
                                       : Pattern::Instruction{Operation::kFork, behind, 1});
            append(code, part.code);
            if (loop.most != 1)
                code.push_back({Operation::kJump, -size - 1});
            return {std::move(code), may_be_empty};
        }
        const std::ptrdiff_t number = signed_of(program_.loops.size());
        program_.loops.push_back(loop);
        code.push_back({Operation::kLoopStart, number});
        code.push_back({Operation::kLoopFork, number, size + 3});
        code.push_back({Operation::kLoopBody, number});
        append(code, part.code);
        code.push_back({Operation::kLoopAgain, number, -size - 2});
        return {std::move(code), may_be_empty};
    }

    const std::wstring &text_;
    const CharacterScan scan_;
    Pattern::Program program_;
    std::size_t place_ = 0;
    std::size_t groups_ = 0; // that have begun
};

} // namespace

Pattern::Pattern(const std::wstring &text) : program_(Reader(text).read()) {}

} // namespace outbox::ctl
