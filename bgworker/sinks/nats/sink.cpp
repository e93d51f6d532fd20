#include "sink.h"

#include "bgworker/sinks/signals_blocked.h"
#include "bgworker/sinks/thread_end.h"

#include <nats/nats.h>

#include <algorithm>
#include <csignal>
#include <exception>
#include <functional>
#include <sys/eventfd.h>
#include <utility>

namespace outbox::nats
{

namespace
{

constexpr std::size_t kMaxPlaces = std::size_t{1} << Flights::kPlaceBits;
constexpr int kCloseMs = 100;

// Ends a system call of the thread that waits for a server: it blocks all other signals, and no
// other thread takes this one. Nobody else in the server's processes uses those of real time.
int
interruption() noexcept
{
    return SIGRTMIN + 4;
}

void
do_nothing(int) noexcept
{
}

bool
prepare_interruption() noexcept
{
    struct sigaction action = {};
    action.sa_handler = do_nothing; // and without SA_RESTART
    return sigaction(interruption(), &action, nullptr) == 0;
}

void
allow_interruption() noexcept
{
    sigset_t set;
    (void) sigemptyset(&set);
    (void) sigaddset(&set, interruption());
    (void) pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

// The thread owns what it works with: it may end after its sink.
void *
run(void *argument) noexcept
{
    std::unique_ptr<std::shared_ptr<Courier>> courier(
        static_cast<std::shared_ptr<Courier> *>(argument));
    allow_interruption();
    (*courier)->run();
    // Closes the connection, when the sink is gone.
    courier.reset();
    // libnats keeps some memory for each thread that it has worked in.
    nats_ReleaseThreadMemory();
    return nullptr;
}

// Random, so that nobody guesses it who is not to see the answers; the server tells it to those
// who may see everything.
std::string
new_inbox(const std::string &prefix)
{
    natsInbox *inbox = nullptr;
    if (natsInbox_Create(&inbox) != NATS_OK)
        throw std::bad_alloc();
    std::string name(inbox);
    natsInbox_Destroy(inbox);
    constexpr std::string_view kUsual = "_INBOX";
    if (!prefix.empty() && name.compare(0, kUsual.size(), kUsual) == 0)
        name.replace(0, kUsual.size(), prefix);
    return name;
}

std::uint64_t
lane_of(const Record &record) noexcept
{
    const std::hash<std::string_view> hash;
    return hash(record.topic) * 0x9e3779b97f4a7c15U + hash(record.key);
}

} // namespace

NatsSink::NatsSink(const Settings &settings, int wake_fd) : settings_(settings), wake_fd_(wake_fd)
{
}

std::unique_ptr<NatsSink>
NatsSink::create(const Settings &settings, const Manner &manner, int wake_fd, Failure &why) noexcept
{
    try
    {
        std::unique_ptr<NatsSink> sink(new NatsSink(settings, wake_fd));
        if (sink->start(manner, why))
            return sink;
    }
    catch (const std::exception &)
    {
        set_failure(why, FailureClass::fatal, "NO_MEMORY", "there was no memory for the sink");
    }
    return nullptr;
}

bool
NatsSink::start(const Manner &manner, Failure &why)
{
    static const bool can_interrupt = prepare_interruption();
    (void) can_interrupt;         // fails only for a signal that there is not
    const SignalsBlocked blocked; // libnats starts threads of its own
    std::string inbox = new_inbox(settings_.inbox_prefix);
    builder_ = std::make_unique<MessageBuilder>(settings_.subject, inbox, settings_.stream);
    courier_ = std::make_shared<Courier>(settings_, std::move(inbox), manner, wake_fd_);
    auto owned = std::make_unique<std::shared_ptr<Courier>>(courier_);
    if (courier_->is_usable() && pthread_create(&thread_, nullptr, run, owned.get()) == 0)
    {
        static_cast<void>(owned.release()); // the thread's
        has_thread_ = true;
        return true;
    }
    set_failure(why, FailureClass::fatal, "NO_THREAD", "no thread or descriptor could be had");
    return false;
}

NatsSink::~NatsSink()
{
    (void) close(kCloseMs);
}

bool
NatsSink::close(int timeout_ms) noexcept
{
    if (!std::exchange(has_thread_, false))
        return true;
    courier_->stop();
    if (ends_within(thread_, timeout_ms))
        return true;
    // It is held up by a server, and would be for ever.
    courier_->break_off();
    (void) pthread_kill(thread_, interruption());
    (void) pthread_detach(thread_);
    return false;
}

// A read of libnats's within the handshake of TLS has no end of its own.
void
NatsSink::interrupt() noexcept
{
    if (courier_->break_off_if_held())
        (void) pthread_kill(thread_, interruption());
}

// Places are given back when their records are reported, so an answer that comes too late finds
// another number.
std::uint64_t
NatsSink::take_place()
{
    if (free_places_.empty())
    {
        free_places_.reserve(sizes_.size() + 1); // so that none is given back in vain
        free_places_.push_back(static_cast<std::uint32_t>(sizes_.size()));
        sizes_.push_back(0);
    }
    return (++serial_ << Flights::kPlaceBits) | free_places_.back();
}

ProduceResult
NatsSink::produce(const Record &record, Failure &why) noexcept
{
    try
    {
        return try_produce(record, why);
    }
    catch (const std::exception &)
    {
        set_failure(why, FailureClass::retriable, "NO_MEMORY", "there was no memory for a record");
        return ProduceResult::failed;
    }
}

ProduceResult
NatsSink::try_produce(const Record &record, Failure &why)
{
    if (fatal(why))
        return ProduceResult::failed;
    const std::size_t size = size_in_flight(record);
    if (outstanding_ > 0 && (outstanding_ >= std::min(settings_.max_records, kMaxPlaces) ||
                             bytes_ + size > settings_.max_bytes))
        return ProduceResult::queue_full;
    const std::uint64_t token = take_place();
    Message message = builder_->build(record, token, why);
    if (message == nullptr)
        return ProduceResult::failed;
    Parcel parcel;
    parcel.message = message.get();
    parcel.subject = natsMsg_GetSubject(message.get());
    parcel.token = token;
    parcel.tag = record.tag;
    parcel.lane = lane_of(record);
    courier_->take(parcel);
    static_cast<void>(message.release()); // the courier's
    free_places_.pop_back();
    sizes_[Flights::place_of(token)] =
        static_cast<std::uint32_t>(std::min<std::size_t>(size, UINT32_MAX));
    bytes_ += sizes_[Flights::place_of(token)];
    outstanding_++;
    return ProduceResult::queued;
}

void
NatsSink::tell(std::size_t index, SinkListener &listener) noexcept
{
    Report &report = reports_.records[index];
    const std::uint64_t tag = report.tag;
    report.is_told = true;
    bytes_ -= std::min<std::size_t>(bytes_, sizes_[report.place]);
    free_places_.push_back(report.place);
    outstanding_--;
    listener.batch(1);
    if (report.failure == Report::kDelivered)
        return listener.delivered(tag);
    Failure failure = reports_.failures[report.failure];
    failure.consequence = report.consequence;
    failure.possibly_persisted = report.possibly_persisted;
    listener.failed(tag, failure);
}

// All that was queued behind a refused record: what came before the refusal was told, and what the
// courier had not even looked at.
std::size_t
NatsSink::tell_behind(std::uint64_t lane, SinkListener &listener) noexcept
{
    const std::size_t count = courier_->reopen(lane);
    std::size_t told = 0;
    for (std::size_t i = next_report_; told < count; i++)
    {
        if (i == reports_.records.size())
        {
            courier_->fetch(reports_);
            if (i == reports_.records.size())
                break; // the courier is dead
        }
        const Report &report = reports_.records[i];
        if (report.lane != lane || report.is_told || !report.consequence)
            continue;
        tell(i, listener);
        told++;
    }
    return told;
}

bool
NatsSink::fetch() noexcept
{
    reports_.records.clear();
    reports_.failures.clear();
    next_report_ = 0;
    courier_->fetch(reports_);
    return !reports_.records.empty();
}

std::size_t
NatsSink::serve(SinkListener &listener, std::size_t max_events) noexcept
{
    // Before the reports are taken, so that what comes meanwhile sets it again.
    eventfd_t count = 0;
    if (wake_fd_ != -1)
        (void) eventfd_read(wake_fd_, &count);
    if (has_thread_)
        interrupt();
    std::size_t served = 0;
    while (served < max_events && (next_report_ < reports_.records.size() || fetch()))
    {
        const Report report = reports_.records[next_report_];
        if (!report.is_told)
        {
            tell(next_report_++, listener);
            served++;
            served += report.is_refusal() ? tell_behind(report.lane, listener) : 0;
        }
        else
            next_report_++;
    }
    if (served >= max_events)
    {
        if (wake_fd_ != -1)
            (void) eventfd_write(wake_fd_, 1);
        return served;
    }
    // Behind what was acknowledged before.
    Failure trouble;
    if (courier_->take_trouble(trouble))
    {
        listener.trouble(trouble);
        served++;
    }
    return served;
}

bool
NatsSink::fatal(Failure &why) const noexcept
{
    if (!courier_->is_dead())
        return false;
    set_failure(why, FailureClass::fatal, "NO_MEMORY", "there was no memory for what is sent");
    return true;
}

} // namespace outbox::nats
