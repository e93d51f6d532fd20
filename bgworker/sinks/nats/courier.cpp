#include "courier.h"

#include "extension/core/steady.h"

#include <nats/nats.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <poll.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utility>

namespace outbox::nats
{

namespace
{

// How many are sent before the socket is written to, and before the lock is free for a moment.
constexpr int kBatch = 64;
constexpr int kBatchBytes = 256 * 1024;
constexpr std::int64_t kAskAgainMs = 1000;
// More answers than there can be questions are of nobody who was asked.
constexpr std::size_t kMaxAnswers = 100000;
constexpr std::size_t kMaxProhibitions = 64;

std::int64_t
milliseconds() noexcept
{
    return steady_now() / 1000;
}

void
signal(int fd) noexcept
{
    // Fails only when the counter is at its maximum, and then it is set.
    if (fd >= 0)
        (void) eventfd_write(fd, 1);
}

FlightRules
rules_of(const Settings &settings, int patience_ms) noexcept
{
    FlightRules rules;
    rules.timeout_ms = static_cast<int>(settings.timeout_ms);
    rules.patience_ms = patience_ms;
    rules.backoff_initial_ms = settings.backoff_initial_ms;
    rules.backoff_max_ms = settings.backoff_max_ms;
    return rules;
}

Failure
consequence_of(const char *what) noexcept
{
    Failure failure;
    set_failure(failure, FailureClass::retriable, "GIVEN_UP", "%s", what);
    failure.consequence = true;
    return failure;
}

Failure
taken_back() noexcept
{
    return consequence_of("what was outstanding was taken back");
}

bool
is_same(const Failure &one, const Failure &other) noexcept
{
    return one.cls == other.cls && one.too_large == other.too_large &&
           std::strcmp(one.name, other.name) == 0 && std::strcmp(one.text, other.text) == 0;
}

} // namespace

Courier::Courier(const Settings &settings, std::string inbox, const Manner &manner, int wake_fd)
    : settings_(settings), manner_(manner), inbox_(std::move(inbox)), listener_(announce(*this)),
      flights_(rules_of(settings, manner.patience_ms), *this), wake_fd_(wake_fd),
      own_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), client_(settings_, inbox_, listener_),
      asked_at_(milliseconds() - kAskAgainMs), random_(static_cast<std::uint64_t>(steady_now()))
{
}

Courier::~Courier()
{
    release(listener_);
    flights_.give_up_all(taken_back());
    drop_all();
    if (own_fd_ >= 0)
        (void) ::close(own_fd_);
}

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
Courier::run() noexcept
{
    try
    {
        while (!stopping_ && !is_dead_)
            work();
    }
    catch (const std::exception &)
    {
        // What it has is given up: another sink gets it.
        is_dead_ = true;
        is_well_ = false;
        const std::lock_guard<std::mutex> flights_lock(flights_mutex_);
        flights_.give_up_all(consequence_of("there was no memory"));
    }
    client_.disconnect();
    tell();
}

void
Courier::work()
{
    now_ = milliseconds();
    if (!client_.is_connected())
        connect();
    if (wait())
        client_.read();
    now_ = milliseconds();
    take_in();
    watch();
    send();
    tell();
}

// As long as there is trouble, its pauses count.
void
Courier::connect()
{
    {
        const std::lock_guard<std::mutex> lock(flights_mutex_);
        if (flights_.is_in_trouble() && now_ < flights_.retry_at())
            return;
    }
    Failure why;
    no_answers_.clear();
    const bool connected = client_.connect(why);
    now_ = connected_at_ = milliseconds();
    is_outage_ = false;
    if (!connected)
        return note_trouble(why);
    const std::lock_guard<std::mutex> lock(flights_mutex_);
    flights_.recovered();
    is_well_ = !flights_.is_in_trouble();
}

void
Courier::note_trouble(const Failure &failure)
{
    const std::lock_guard<std::mutex> lock(flights_mutex_);
    flights_.trouble(now_, random());
    tell_trouble(failure, flights_.retry_at());
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

// Until there is something to read or to write, or somebody wakes the thread, or a time is over.
// Returns whether there is something to read: over TLS libnats waits for it.
bool
Courier::wait()
{
    std::int64_t due = 0;
    {
        const std::lock_guard<std::mutex> lock(flights_mutex_);
        due = client_.is_connected() ? flights_.due() : flights_.retry_at();
    }
    const std::int64_t pause = std::max<std::int64_t>(std::min<std::int64_t>(due - now_, 60000), 0);
    pollfd fds[2] = {{own_fd_, POLLIN, 0}, {client_.descriptor(), POLLIN, 0}};
    if (client_.wants_to_write())
        fds[1].events |= POLLOUT;
    // An interruption only makes it look sooner.
    (void) ::poll(fds, fds[1].fd >= 0 ? 2 : 1, static_cast<int>(pause));
    eventfd_t count = 0;
    if ((fds[0].revents & POLLIN) != 0)
        (void) eventfd_read(own_fd_, &count);
    if ((fds[1].revents & POLLOUT) != 0)
        client_.write();
    return client_.is_connected() && (fds[1].revents & ~POLLOUT) != 0;
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
Courier::take_in()
{
    const std::lock_guard<std::mutex> flights_lock(flights_mutex_);
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        new_answers_.swap(answers_);
        new_prohibitions_.swap(prohibitions_);
    }
    for (natsMsg *&message : new_answers_)
    {
        hear_answer(message);
        natsMsg_Destroy(std::exchange(message, nullptr));
    }
    new_answers_.clear();
    for (const std::string &text : new_prohibitions_)
        hear_prohibition(text);
    new_prohibitions_.clear();
    take_parcels();
}

void
Courier::hear_answer(natsMsg *message)
{
    std::uint64_t token = 0;
    const char *subject = natsMsg_GetSubject(message);
    if (subject == nullptr || !read_token(subject, inbox_, token))
        return;
    if (token == 0)
        return hear_information(message);
    const Parcel *parcel = flights_.find(token);
    if (parcel == nullptr)
        return;
    flights_.note_heard(now_);
    if (natsMsg_IsNoResponders(message))
    {
        judge(token, judge_no_responders(parcel->subject));
        return ask_about_jetstream();
    }
    const Answer answer = read_answer(
        {natsMsg_GetData(message), static_cast<std::size_t>(natsMsg_GetDataLength(message))});
    const Judgement judgement = judge_answer(parcel->subject, settings_.stream, answer);
    if (judgement.reach != Reach::none)
        return judge(token, judgement);
    flights_.stored(token);
    is_outage_ = false;
    is_well_ = true;
}

// While JetStream or the stream is gone, that is why nobody answers.
void
Courier::judge(std::uint64_t token, Judgement judgement)
{
    if (is_outage_ && judgement.reach == Reach::subject)
    {
        judgement.reach = Reach::destination;
        judgement.failure = outage_;
    }
    const bool was_in_trouble = flights_.is_in_trouble();
    const std::int64_t retry_at = flights_.retry_at();
    flights_.refused(token, judgement, now_, random());
    is_well_ = !flights_.is_in_trouble();
    if (judgement.reach != Reach::destination ||
        (was_in_trouble && flights_.retry_at() == retry_at))
        return;
    tell_trouble(judgement.failure, flights_.retry_at());
}

// Nobody answers for a subject: because of the subject, or because there is no JetStream, or not
// the stream that everything has to go to?
void
Courier::ask_about_jetstream()
{
    if (now_ - asked_at_ < kAskAgainMs)
        return;
    asked_at_ = now_;
    const std::string subject =
        settings_.stream.empty() ? "$JS.API.INFO" : "$JS.API.STREAM.INFO." + settings_.stream;
    client_.ask(subject.c_str(), (inbox_ + ".0").c_str());
}

void
Courier::hear_information(natsMsg *message)
{
    const Answer answer = read_answer(
        {natsMsg_GetData(message), static_cast<std::size_t>(natsMsg_GetDataLength(message))});
    const Judgement judgement = natsMsg_IsNoResponders(message)
                                    ? judge_no_jetstream()
                                    : judge_information(settings_.stream, answer);
    const bool was_outage = std::exchange(is_outage_, judgement.reach == Reach::destination);
    if (!is_outage_)
        return;
    outage_ = judgement.failure;
    flights_.keep_all();
    if (was_outage || flights_.is_in_trouble())
        return;
    flights_.trouble(now_, random());
    tell_trouble(outage_, flights_.retry_at());
}

// 'Permissions Violation for Publish to "subject"', of which libnats keeps 255 bytes.
void
Courier::hear_prohibition(const std::string &text)
{
    constexpr std::string_view kBefore = "publish to \"";
    const char *at = ::strcasestr(text.c_str(), kBefore.data());
    if (at == nullptr)
    {
        no_answers_ = text; // it is of the inbox
        return;
    }
    std::string_view subject = at + kBefore.size();
    const bool cut = subject.empty() || subject.back() != '"';
    if (!cut)
        subject.remove_suffix(1);
    flights_.note_heard(now_);
    flights_.not_permitted(subject, cut, now_, random());
}

// False when there is no more to send, or it cannot be sent just now.
bool
Courier::send_one()
{
    constexpr std::int64_t kSureMs = 1000;
    const Parcel *parcel = flights_.next(now_);
    if (parcel == nullptr)
        return false;
    switch (client_.publish(static_cast<natsMsg *>(parcel->message)))
    {
    case Client::Published::done:
        return true;
    case Client::Published::too_large:
        renew_ = manner_.renews_limit && now_ - connected_at_ > kSureMs;
        if (renew_)
            return false;
        flights_.refused(parcel->token, judge_too_large(parcel->subject, client_.max_payload()),
                         now_, random());
        return true;
    case Client::Published::no_memory:
        throw std::bad_alloc();
    case Client::Published::lost:
        break;
    }
    return false;
}

void
Courier::send()
{
    for (bool more = true; more && client_.is_connected() && !stopping_;)
    {
        {
            const std::lock_guard<std::mutex> lock(flights_mutex_);
            for (int i = 0; i < kBatch && more && client_.buffered() < kBatchBytes; i++)
                more = send_one();
            if (std::exchange(renew_, false))
            {
                client_.disconnect();
                flights_.disconnected();
                return wake();
            }
        }
        client_.write();
        // The rest when the socket takes more.
        if (client_.wants_to_write())
            return;
    }
}

void
Courier::watch()
{
    bool silent = false;
    if (client_.is_connected())
    {
        const std::lock_guard<std::mutex> lock(flights_mutex_);
        silent = !flights_.watch(now_, random());
        if (flights_.size() == 0 && now_ >= flights_.retry_at())
            flights_.recovered();
        is_well_ = !flights_.is_in_trouble();
    }
    if (!silent && !client_.is_closed())
        return;
    Failure why;
    if (!silent)
        client_.describe_end(why);
    else if (!no_answers_.empty())
        set_failure(why, FailureClass::retriable, "NOT_PERMITTED", "no answer can arrive: %s",
                    no_answers_.c_str());
    else
        set_failure(why, FailureClass::retriable, "NO_ANSWER",
                    "the server has not answered for %lld ms",
                    static_cast<long long>(settings_.timeout_ms));
    note_end(why);
}

// A server ends the connection of who sends what it cannot take. It does not say what that was, so
// what was under way goes out one by one.
void
Courier::note_end(const Failure &why)
{
    client_.disconnect();
    {
        const std::lock_guard<std::mutex> lock(flights_mutex_);
        if (::strcasestr(why.text, "maximum payload") != nullptr ||
            ::strcasestr(why.text, "maximum control line") != nullptr)
        {
            if (const Parcel *alone = flights_.alone())
            {
                Judgement judgement;
                judgement.reach = Reach::event;
                set_failure(judgement.failure, FailureClass::event, "PROTOCOL", "%s", why.text);
                judgement.failure.too_large = true;
                flights_.refused(alone->token, judgement, now_, random());
            }
            flights_.isolate();
        }
        flights_.disconnected();
    }
    note_trouble(why);
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
Courier::answered(natsMsg *message) noexcept
{
    bool first = false;
    try
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        first = answers_.empty();
        if (answers_.size() < kMaxAnswers)
        {
            answers_.push_back(message);
            message = nullptr;
        }
    }
    catch (const std::exception &)
    {
        // As if it had been lost on the way: the message is sent again.
    }
    natsMsg_Destroy(message);
    if (first)
        wake();
}

void
Courier::not_permitted(const char *text) noexcept
{
    try
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (prohibitions_.size() < kMaxProhibitions)
            prohibitions_.emplace_back(text);
    }
    catch (const std::exception &)
    {
        // The message counts as not acknowledged in time.
    }
    wake();
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

// For jitter only.
std::uint64_t
Courier::random() noexcept
{
    random_ = random_ * 6364136223846793005U + 1442695040888963407U;
    return random_ >> 20;
}

} // namespace outbox::nats
