// Tells once that a value has gone too far, and once that it is back.
#pragma once

#include <cstdint>

namespace outbox
{

// Between the two limits nothing is told, so a value that swings around one of them is told of no
// more often than it crosses the whole way.
class Threshold
{
public:
    enum class News
    {
        none,
        passed, // the value has reached `upper`
        back    // it was there, and is below `lower`
    };

    // An upper limit of 0 switches it off.
    News observe(std::int64_t value, std::int64_t upper, std::int64_t lower) noexcept
    {
        if (!passed_ && upper > 0 && value >= upper)
        {
            passed_ = true;
            return News::passed;
        }
        if (passed_ && (upper <= 0 || value < lower))
        {
            passed_ = false;
            return News::back;
        }
        return News::none;
    }

    bool passed() const noexcept { return passed_; }

private:
    bool passed_ = false;
};

} // namespace outbox
