// Patterns of JSON Schema: regular expressions of ECMA-262 without flags, for characters, not for
// units of UTF-16. What the flag "u" would read in another way is refused.
#pragma once

#include <cstddef>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace outbox::ctl
{

class Pattern
{
public:
    // Throws std::invalid_argument that says why it cannot be read, and where.
    explicit Pattern(const std::wstring &text);

    // Whether a part of the text matches. It takes as long as the pattern makes it: call it where
    // time and memory are bounded.
    bool matches(const std::wstring &text) const;

    static constexpr std::size_t kNoEnd = std::numeric_limits<std::size_t>::max();

    // Ranges of characters, in order, with others between them.
    using Characters = std::vector<std::pair<wchar_t, wchar_t>>;

    enum class Operation
    {
        kCharacter,    // `first`
        kSet,          // the set of number `first`
        kBegin,        // of the text
        kEnd,          // of the text
        kWordBoundary, // or, with `first`, none
        kOpen,         // the group of number `first` begins here
        kClose,        // and ends
        kBackReference,
        kFork,      // goes to `first`, and if that leads nowhere to `second`
        kJump,      // to `first`
        kLoopStart, // the loop of number `first`: nothing was repeated
        kLoopFork,  // into its body, or to `second` behind it
        kLoopBody,
        kLoopAgain, // to the fork at `second`
        kAhead,     // what follows, to kDone, is found here, or, with `first`, is not; to `second`
        kDone,
    };

    // Places are relative to the instruction's own.
    struct Instruction
    {
        Operation operation;
        std::ptrdiff_t first = 0;
        std::ptrdiff_t second = 0;
    };

    struct Loop
    {
        std::size_t least = 0;
        std::size_t most = 0; // or kNoEnd
        bool greedy = true;
        // These are forgotten at the beginning of each turn.
        std::size_t first_group = 0;
        std::size_t end_group = 0;
    };

    struct Program
    {
        std::vector<Instruction> code;
        std::vector<Characters> sets;
        std::vector<Loop> loops;
        std::size_t groups = 0;
    };

private:
    Program program_;
};

} // namespace outbox::ctl
