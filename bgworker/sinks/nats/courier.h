// The thread that has the connection, and what it shares with the relay's.
#pragma once

#include "client.h"
#include "flights.h"
#include "message.h"
#include "settings.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace outbox::nats
{

// What became of a record.
struct Report
{
    static constexpr std::uint32_t kDelivered = UINT32_MAX;

    std::uint64_t tag = 0;
    std::uint64_t lane = 0;
    std::uint32_t place = 0;
    std::uint32_t failure = kDelivered; // its number in Reports::failures
    bool consequence = false;
    bool possibly_persisted = false;
    bool is_told = false;

    bool is_refusal() const noexcept { return failure != kDelivered && !consequence; }
};

struct Reports
{
    std::vector<Report> records;
    std::vector<Failure> failures; // one for all records in a row that have the same
};

// What differs between the uses of a destination.
struct Manner
{
    int patience_ms = 1000; // see FlightRules
    // Servers do not tell when they take larger messages than before: it is asked, by another
    // connection, before an event is refused for its size.
    bool renews_limit = false;
};

// Connects, sends, hears the answers, and connects again, until it is told to stop. The relay's
// thread calls what is public; no lock there is held by anybody who waits.
class Courier final : public Listener, public FlightEnd
{
public:
    // `wake_fd` is a non-blocking eventfd, or -1. May throw std::bad_alloc.
    Courier(const Settings &settings, std::string inbox, const Manner &manner, int wake_fd);
    ~Courier() override;

    // False: there is no descriptor, and no more to be done.
    bool is_usable() const noexcept { return own_fd_ >= 0; }

    // Owns the parcel's message from here on, unless it throws std::bad_alloc.
    void take(const Parcel &parcel);
    // So that what was taken is sent.
    void wake() noexcept;
    // Adds what there is to tell to `reports`. Adds nothing when there is no memory for that.
    void fetch(Reports &reports) noexcept;
    // A refusal was told. Gives up what came behind it, and returns how many reports of that there
    // are in all: those that were not fetched yet are by the next call of fetch().
    std::size_t reopen(std::uint64_t lane) noexcept;
    // True once for each attempt that failed, or for several of them.
    bool take_trouble(Failure &trouble) noexcept;
    void purge() noexcept;
    // run() ends soon, and the wake-up descriptor is not used any more.
    void stop() noexcept;
    // The thread is held up by the server for longer than it may be: ends what it waits for. Called
    // now and then. True: whoever owns the thread interrupts it.
    bool break_off_if_held() noexcept;
    // It reads over TLS: whether it comes back has to be looked at.
    bool is_reading() const noexcept { return is_reading_; }
    // At once, as it is to end.
    void break_off() noexcept { client_.lifeline().cut(); }
    // The last attempt to reach the destination was answered.
    bool is_well() const;
    // There was no memory for what had to be kept: nothing more is sent.
    bool is_dead() const noexcept { return is_dead_; }

    // The thread.
    void run() noexcept;

    void answered(__natsMsg *message) noexcept override;
    void not_permitted(const char *text) noexcept override;
    void ended(const Parcel &parcel, const Failure *failure) noexcept override;

private:
    static constexpr std::int64_t kAskAgainMs = 1000; // about JetStream

    void work();
    void connect();
    void take_parcels();
    void take_in();
    Answer answer_of(__natsMsg *message) const noexcept;
    void hear_answer(__natsMsg *message);
    void hear_information(__natsMsg *message);
    void hear_prohibition(const std::string &text);
    void judge(std::uint64_t token, Judgement judgement);
    void ask_about_jetstream();
    void send();
    bool send_one();
    void note_end(const Failure &why);
    void note_trouble(const Failure &failure);
    void tell_trouble(const Failure &failure, std::int64_t retry_at);
    void watch();
    bool wait();
    void read();
    void tell() noexcept;
    void drop_all() noexcept;
    std::uint64_t random() noexcept;

    const Settings settings_;
    const Manner manner_;
    const std::string inbox_;
    const std::uint64_t listener_;

    // Of the two threads; held for moments only. Locked before the other one.
    mutable std::mutex flights_mutex_;
    Flights flights_;
    std::vector<Parcel> new_parcels_; // empty but for a moment
    bool purged_ = false;

    // Of all threads.
    std::mutex mutex_;
    std::vector<Parcel> parcels_;
    std::vector<__natsMsg *> answers_;
    std::vector<std::string> prohibitions_;
    Reports reports_;
    bool has_trouble_ = false;
    Failure trouble_; // the newest
    int wake_fd_;

    const int own_fd_; // wakes the thread
    std::atomic<bool> stopping_{false};
    std::atomic<bool> is_well_{false}; // until there is a connection
    std::atomic<bool> is_dead_{false};
    std::atomic<bool> is_reading_{false};

    // Of the thread alone.
    Client client_;
    std::int64_t now_ = 0;
    std::int64_t connected_at_ = 0;
    bool renew_ = false; // the connection, to learn the server's limit
    std::int64_t asked_at_;
    bool is_outage_ = false;
    Failure outage_;         // of JetStream, or of the stream
    std::string no_answers_; // the server's words, if the inbox is not permitted
    std::uint64_t random_;
    std::vector<__natsMsg *> new_answers_;
    std::vector<std::string> new_prohibitions_;
};

} // namespace outbox::nats
