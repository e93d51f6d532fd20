// What survives a crash of the simulated server.
#include "relay_store.h"

#include <algorithm>

namespace outbox::sim
{

void
Database::remove(RelayStore &store)
{
    stores_.erase(std::remove(stores_.begin(), stores_.end(), &store), stores_.end());
}

// Of a transaction that writes.
void
Database::spend_xid()
{
    latest_completed_ = std::max(latest_completed_, next_xid_);
    next_xid_++;
}

void
Database::flush_log(Lsn lsn)
{
    if (lsn <= flushed_)
        return;
    flushed_ = lsn;
    if (!standby_lags_)
        on_standby_ = flushed_;
    for (RelayStore *store : stores_)
        store->flushed(flushed_);
}

void
Database::set_standby_lag(bool lags)
{
    standby_lags_ = lags;
    if (!lags)
        on_standby_ = flushed_;
}

void
Database::crash()
{
    flush_log(flushed_ +
              static_cast<Lsn>(random_.below(static_cast<std::int64_t>(next_lsn_ - flushed_ + 1))));
    trace_.say("the server crashes; its log is on disk up to %llu of %llu",
               static_cast<unsigned long long>(flushed_),
               static_cast<unsigned long long>(next_lsn_));
    for (Time &until : locked_until_)
        until = 0;
    committed_events_ = 0;
    next_xid_ -= static_cast<Xid>(random_.below(8));
    for (RelayStore *store : stores_)
        next_xid_ = std::max(next_xid_, store->crash());
    for (auto session = sessions_.begin(); session != sessions_.end();)
        if (session->second.state == Transaction::State::prepared)
            ++session;
        else
        {
            finish(session->second, false);
            session = sessions_.erase(session);
        }
    // Commits that nobody waited for are taken back, and their ids may be given out again.
    Xid highest = 0;
    for (auto commit = commits_.begin(); commit != commits_.end();)
    {
        if (commit->second <= flushed_)
        {
            highest = commit->first;
            ++commit;
            continue;
        }
        for (auto &index : index_)
            for (auto at = index.lower_bound({commit->first, INT64_MIN});
                 at != index.end() && at->first.first == commit->first; at = index.erase(at))
                if (alive_[static_cast<std::size_t>(at->second)] != 0)
                    take_back(at->second);
        commit = commits_.erase(commit);
    }
    for (const Xid xid : running_)
        highest = std::max(highest, xid);
    next_xid_ = std::max<Xid>(highest + 1, next_xid_);
    for (RelayStore *store : stores_)
        store->begin_anew(flushed_, next_xid_);
    latest_completed_ = next_xid_ - 1;
    for (auto &index : index_)
        for (auto at = index.lower_bound({next_xid_, INT64_MIN}); at != index.end();)
            at = index.erase(at);
    next_seq_ += random_.below(33);
    next_lsn_ = flushed_ + 1;
    routes_version_++;
}

} // namespace outbox::sim
