// From a history that fails to a short one, and to words.
#include "simulation.h"

namespace outbox::sim
{

namespace
{

// The history without some acts, or with smaller ones.
bool
fails_so(const History &history, const std::string &kind)
{
    return simulate(history).kind == kind;
}

} // namespace

// Runs of acts are left out, long ones first, until none can be.
History
shorten(const History &history, const std::string &kind)
{
    History best = history;
    int tries = 3000;
    for (std::size_t run = best.acts.size() / 2; run > 0 && tries > 0;)
    {
        bool any = false;
        for (std::size_t at = 0; at < best.acts.size() && tries > 0;)
        {
            History shorter = best;
            const auto first = shorter.acts.begin() + static_cast<std::ptrdiff_t>(at);
            const std::size_t count = std::min(run, best.acts.size() - at);
            shorter.acts.erase(first, first + static_cast<std::ptrdiff_t>(count));
            tries--;
            if (fails_so(shorter, kind))
            {
                best = std::move(shorter);
                any = true;
            }
            else
                at += run;
        }
        if (!any || run > 1)
            run = run == 1 ? (any ? 1 : 0) : run / 2;
    }
    return best;
}

std::string
tell(const History &history)
{
    const Outcome outcome = simulate(history, true);
    std::string text;
    for (const std::string &line : outcome.lines)
        text += line + '\n';
    return text;
}

} // namespace outbox::sim
