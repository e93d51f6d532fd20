// Tries patterns on texts, as ECMA-262 says: the ways in their order, back to the last fork when
// one leads nowhere. What that needs to know is kept here, not on the stack of calls, which a long
// text would use up.
#include "contract_pattern.h"

#include <algorithm>

namespace outbox::ctl
{

namespace
{

using Operation = Pattern::Operation;

constexpr std::ptrdiff_t kNone = -1;

bool
is_word(wchar_t c)
{
    return (c >= L'0' && c <= L'9') || (c >= L'A' && c <= L'Z') || (c >= L'a' && c <= L'z') ||
           c == L'_';
}

bool
contains(const Pattern::Characters &set, wchar_t c)
{
    const auto behind =
        std::upper_bound(set.begin(), set.end(), c,
                         [](wchar_t one, const auto &range) { return one < range.first; });
    return behind != set.begin() && c <= std::prev(behind)->second;
}

class Matching
{
public:
    Matching(const Pattern::Program &program, const std::wstring &text)
        : program_(program), text_(text), groups_(program.groups), turns_(program.loops.size())
    {
    }

    // True: what was noted on the way is left.
    bool run(std::size_t step, std::size_t place)
    {
        const std::size_t bottom = notes_.size();
        step_ = step;
        place_ = place;
        for (;;)
        {
            if (program_.code[step_].operation == Operation::kDone)
                return true;
            if (!advance() && !back(bottom))
                return false;
        }
    }

private:
    // What to go back to, or what a number was.
    struct Note
    {
        std::ptrdiff_t *number; // null: a fork
        std::size_t step;
        std::ptrdiff_t value; // or the fork's place in the text
    };
    struct Group
    {
        std::ptrdiff_t opened = kNone;
        std::ptrdiff_t begin = kNone;
        std::ptrdiff_t end = kNone; // kNone: it has not taken part
    };
    struct Turns
    {
        std::ptrdiff_t count = 0;
        std::ptrdiff_t begin = 0; // of the last one
    };

    void change(std::ptrdiff_t &number, std::ptrdiff_t value)
    {
        if (number == value)
            return;
        notes_.push_back({&number, 0, number});
        number = value;
    }

    void fork(std::ptrdiff_t other)
    {
        notes_.push_back({nullptr, step_ + static_cast<std::size_t>(other),
                          static_cast<std::ptrdiff_t>(place_)});
    }

    // To the last fork above the bottom. False when there is none.
    bool back(std::size_t bottom)
    {
        while (notes_.size() > bottom)
        {
            const Note note = notes_.back();
            notes_.pop_back();
            if (note.number != nullptr)
            {
                *note.number = note.value;
                continue;
            }
            step_ = note.step;
            place_ = static_cast<std::size_t>(note.value);
            return true;
        }
        return false;
    }

    void go(std::ptrdiff_t by) { step_ += static_cast<std::size_t>(by); }
    bool go_on(bool good)
    {
        step_++;
        return good;
    }

    // One step; false when it leads nowhere.
    bool advance()
    {
        const Pattern::Instruction &one = program_.code[step_];
        const auto number = static_cast<std::size_t>(one.first);
        const auto place = static_cast<std::ptrdiff_t>(place_);
        switch (one.operation)
        {
        case Operation::kCharacter:
            return go_on(place_ < text_.size() && text_[place_++] == one.first);
        case Operation::kSet:
            return go_on(place_ < text_.size() && contains(program_.sets[number], text_[place_++]));
        case Operation::kBegin:
            return go_on(place_ == 0);
        case Operation::kEnd:
            return go_on(place_ == text_.size());
        case Operation::kWordBoundary:
            return go_on(at_boundary() == (one.first == 0));
        case Operation::kOpen:
            change(groups_[number].opened, place);
            return go_on(true);
        case Operation::kClose:
            change(groups_[number].begin, groups_[number].opened);
            change(groups_[number].end, place);
            return go_on(true);
        case Operation::kBackReference:
            return go_on(repeats(groups_[number]));
        case Operation::kFork:
            fork(one.second);
            go(one.first);
            return true;
        case Operation::kJump:
            go(one.first);
            return true;
        case Operation::kAhead:
            return look_ahead(one);
        default:
            return turn(one, program_.loops[number], turns_[number]);
        }
    }

    bool at_boundary() const
    {
        const bool before = place_ > 0 && is_word(text_[place_ - 1]);
        const bool behind = place_ < text_.size() && is_word(text_[place_]);
        return before != behind;
    }

    // A group that has not taken part is empty.
    bool repeats(const Group &group)
    {
        if (group.end == kNone)
            return true;
        const auto begin = static_cast<std::size_t>(group.begin);
        const std::size_t size = static_cast<std::size_t>(group.end) - begin;
        const bool same =
            text_.size() - place_ >= size && text_.compare(place_, size, text_, begin, size) == 0;
        place_ += same ? size : 0;
        return same;
    }

    bool look_ahead(const Pattern::Instruction &ahead)
    {
        const std::size_t step = step_;
        const std::size_t place = place_;
        const std::size_t bottom = notes_.size();
        const bool found = run(step + 1, place);
        if (found && ahead.first != 0)
            while (back(bottom))
                continue;
        else if (found) // there is no way back into it, but what it has changed may be undone
            notes_.erase(std::remove_if(notes_.begin() + static_cast<std::ptrdiff_t>(bottom),
                                        notes_.end(),
                                        [](const Note &note) { return note.number == nullptr; }),
                         notes_.end());
        step_ = step;
        place_ = place;
        go(ahead.second);
        return found == (ahead.first == 0);
    }

    bool turn(const Pattern::Instruction &one, const Pattern::Loop &loop, Turns &turns)
    {
        const auto count = static_cast<std::size_t>(turns.count);
        switch (one.operation)
        {
        case Operation::kLoopStart:
            change(turns.count, 0);
            return go_on(true);
        case Operation::kLoopFork:
            if (count >= loop.most || (count >= loop.least && !loop.greedy))
            {
                if (count < loop.most)
                    fork(1);
                go(one.second);
                return true;
            }
            if (count >= loop.least)
                fork(one.second);
            return go_on(true);
        case Operation::kLoopBody:
            change(turns.count, turns.count + 1);
            change(turns.begin, static_cast<std::ptrdiff_t>(place_));
            for (std::size_t group = loop.first_group; group < loop.end_group; group++)
                change(groups_[group].end, kNone);
            return go_on(true);
        default: // kLoopAgain; of an empty turn nothing comes but the next one
            if (count > loop.least && turns.begin == static_cast<std::ptrdiff_t>(place_))
                return false;
            go(one.second);
            return true;
        }
    }

    const Pattern::Program &program_;
    const std::wstring &text_;
    std::vector<Group> groups_;
    std::vector<Turns> turns_;
    std::vector<Note> notes_;
    std::size_t step_ = 0;
    std::size_t place_ = 0;
};

} // namespace

bool
Pattern::matches(const std::wstring &text) const
{
    Matching matching(program_, text);
    for (std::size_t place = 0; place <= text.size(); place++)
        if (matching.run(0, place))
            return true;
    return false;
}

} // namespace outbox::ctl
