// The half of the courier that its thread and the relay's meet in.
#include "courier.h"

#include "extension/core/steady.h"

#include <nats/nats.h>

#include <cstring>
#include <exception>
#include <sys/eventfd.h>
#include <utility>

namespace outbox::nats
{

namespace
{

void
signal(int fd) noexcept
{
    // Fails only when the counter is at its maximum, and then it is set.
    if (fd >= 0)
        (void) eventfd_write(fd, 1);
}

Failure
taken_back() noexcept
{
    Failure failure;
    set_failure(failure, FailureClass::retriable, "GIVEN_UP",
                "what was outstanding was taken back");
    failure.consequence = true;
    return failure;
}

bool
is_same(const Failure &one, const Failure &other) noexcept
{
    return one.cls == other.cls && one.too_large == other.too_large &&
           std::strcmp(one.name, other.name) == 0 && std::strcmp(one.text, other.text) == 0;
}

} // namespace

void
Courier::take(const Parcel &parcel)
{
    bool first = false;
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        first = parcels_.empty();
        parcels_.push_back(parcel);
    }
    if (first)
        wake();
}

void
Courier::wake() noexcept
{
    signal(own_fd_);
}

void
Courier::fetch(Reports &reports) noexcept
{
    const std::lock_guard<std::mutex> lock(mutex_);
    if (reports.records.empty())
        return std::swap(reports, reports_);
    try
    {
        const std::size_t failures = reports.failures.size();
        reports.records.reserve(reports.records.size() + reports_.records.size());
        reports.failures.insert(reports.failures.end(), reports_.failures.begin(),
                                reports_.failures.end());
        for (Report report : reports_.records)
        {
            if (report.failure != Report::kDelivered)
                report.failure += static_cast<std::uint32_t>(failures);
            reports.records.push_back(report);
        }
        reports_.records.clear();
        reports_.failures.clear();
    }
    catch (const std::exception &)
    {
        is_dead_ = true; // what is not told is handed over again
    }
}

// A server that hangs is given up after a time-out only. Where all goes to one stream, nothing else
// can be the matter when nothing is answered; else it may be a subject that nobody answers for.
bool
Courier::is_well() const
{
    constexpr std::int64_t kLateMs = 200; // sooner than the engine asks
    if (!is_well_ || settings_.stream.empty())
        return is_well_;
    const std::lock_guard<std::mutex> lock(flights_mutex_);
    return !flights_.is_silent(steady_now() / 1000, kLateMs);
}

std::size_t
Courier::reopen(std::uint64_t lane) noexcept
{
    const std::lock_guard<std::mutex> lock(flights_mutex_);
    try
    {
        // Before the lane is open: they were queued when nobody had heard of the refusal.
        take_parcels();
    }
    catch (const std::exception &)
    {
        is_dead_ = true; // all of them are handed over again
    }
    return flights_.reopen(lane);
}

void
Courier::purge() noexcept
{
    const std::lock_guard<std::mutex> lock(flights_mutex_);
    purged_ = true;
    try
    {
        take_parcels();
    }
    catch (const std::exception &)
    {
        is_dead_ = true;
    }
    flights_.give_up_all(taken_back());
}

void
Courier::stop() noexcept
{
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        wake_fd_ = -1;
    }
    stopping_ = true;
    wake();
}

void
Courier::tell_trouble(const Failure &failure, std::int64_t retry_at)
{
    is_well_ = false;
    const std::lock_guard<std::mutex> lock(mutex_);
    has_trouble_ = true;
    trouble_ = failure;
    trouble_.summary = true;
    trouble_.retry_after_ms = static_cast<int>(std::max<std::int64_t>(retry_at - now_, 0));
}

bool
Courier::take_trouble(Failure &trouble) noexcept
{
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!std::exchange(has_trouble_, false))
        return false;
    trouble = trouble_;
    return true;
}

// With flights_mutex_ held, so that whoever has it finds all parcels either here or there.
void
Courier::take_parcels()
{
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        new_parcels_.swap(parcels_);
    }
    const Failure failure = taken_back();
    for (const Parcel &parcel : new_parcels_)
    {
        if (purged_)
            ended(parcel, &failure);
        else
            flights_.add(parcel);
    }
    new_parcels_.clear();
}

void
Courier::tell() noexcept
{
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!reports_.records.empty() || has_trouble_)
        signal(wake_fd_);
}

// May be called by either thread, with flights_mutex_ held. A report that there is no memory for is
// of a sink that is dead: then the record is handed over again.
void
Courier::ended(const Parcel &parcel, const Failure *failure) noexcept
{
    natsMsg_Destroy(static_cast<natsMsg *>(parcel.message));
    Report report;
    report.tag = parcel.tag;
    report.lane = parcel.lane;
    report.place = static_cast<std::uint32_t>(Flights::place_of(parcel.token));
    try
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (failure != nullptr)
        {
            report.consequence = failure->consequence;
            report.possibly_persisted = failure->possibly_persisted;
            if (reports_.failures.empty() || !is_same(reports_.failures.back(), *failure))
                reports_.failures.push_back(*failure);
            report.failure = static_cast<std::uint32_t>(reports_.failures.size() - 1);
        }
        reports_.records.push_back(report);
    }
    catch (const std::exception &)
    {
        is_dead_ = true;
    }
}

void
Courier::drop_all() noexcept
{
    for (natsMsg *message : answers_)
        natsMsg_Destroy(message);
    for (natsMsg *message : new_answers_)
        natsMsg_Destroy(message);
    answers_.clear();
    new_answers_.clear();
    for (std::vector<Parcel> *parcels : {&parcels_, &new_parcels_})
    {
        for (const Parcel &parcel : *parcels)
            natsMsg_Destroy(static_cast<natsMsg *>(parcel.message));
        parcels->clear();
    }
}

} // namespace outbox::nats
