#include "shares.h"

#include <algorithm>
#include <utility>

namespace outbox::amqp
{

bool
Shares::admit(std::unique_ptr<Message> &message, Steady::time_point now)
{
    const auto found = shares_.find(std::string(message->routing_key()));
    if (found == shares_.end())
        return true;
    Share &share = found->second;
    if (share.sent == 0 || (share.sent < share.most && now - share.since < kPatience))
        return true;
    share.parked.push(std::move(message));
    return false;
}

void
Shares::sent(Message &message, Steady::time_point now)
{
    const auto [found, fresh] = shares_.try_emplace(std::string(message.routing_key()));
    Share &share = found->second;
    if (fresh)
    {
        share.routing_key = &found->first;
        share.most = first_;
    }
    if (share.sent++ == 0)
        share.since = now;
    message.share = &share;
}

// One that was sent to its bound gets a larger one, for as long as something waits.
void
Shares::answered(Message &message, Steady::time_point now, MessageList &ready) noexcept
{
    Share *share = std::exchange(message.share, nullptr);
    if (share == nullptr)
        return;
    if (share->sent == share->most)
        share->most = std::min(share->most * 2, kMost);
    share->sent--;
    share->since = now;
    if (share->sent == 0 && share->parked.empty())
    {
        (void) shares_.erase(shares_.find(*share->routing_key));
        return;
    }
    // All of it, as the next ones may be refused before they are sent.
    if (share->sent == 0)
        ready.append(std::move(share->parked));
    for (std::size_t room = share->most - std::min(share->most, share->sent);
         room > 0 && !share->parked.empty(); room--)
        ready.push(share->parked.pop());
}

MessageList
Shares::reset() noexcept
{
    MessageList parked;
    for (auto &item : shares_)
        parked.append(std::move(item.second.parked));
    shares_.clear();
    return parked;
}

const Share *
Shares::stops_channel(Steady::time_point quiet_since, Steady::time_point now,
                      bool any_ready) noexcept
{
    const bool again = now - stopped_at_ <= kJustNow;
    stops_ = again ? stops_ : 0;
    if (now - quiet_since < kStopped * (1 << stops_))
        return nullptr;
    if (shares_.empty() || (shares_.size() == 1 && !any_ready) || (again && first_ == 1))
        return nullptr;
    const auto oldest = std::min_element(shares_.begin(), shares_.end(),
                                         [](const auto &a, const auto &b)
                                         {
                                             if ((a.second.sent == 0) != (b.second.sent == 0))
                                                 return b.second.sent == 0;
                                             return a.second.since < b.second.since;
                                         });
    const bool others_went_on = quiet_since - oldest->second.since >= kWhileOthers;
    if (!others_went_on && !again && now - quiet_since < kLong)
        return nullptr;
    if (again)
        first_ = std::max<std::size_t>(first_ / 4, 1);
    stopped_at_ = now;
    stops_ = std::min(stops_ + 1, 4);
    return &oldest->second;
}

} // namespace outbox::amqp
