// What the engine asks of a destination. One thread, and nothing here waits unless it says so;
// nothing throws.
#pragma once

#include "failure.h"
#include "record.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

namespace outbox
{

// Hears what became of records. Called by Sink::serve() only, in the caller's thread; may call
// produce(), offer() and purge(), but must not destroy the sink.
class SinkListener
{
public:
    virtual ~SinkListener() = default;
    // What follows for so many records was sent as one batch, or given up together.
    virtual void batch(std::size_t records) noexcept { static_cast<void>(records); }
    // The record has arrived, and is safe there.
    virtual void delivered(std::uint64_t tag) noexcept = 0;
    // The sink has given the record up.
    virtual void failed(std::uint64_t tag, const Failure &failure) noexcept = 0;
    // News of the connection that belongs to no record; a retriable one heals by itself.
    virtual void trouble(const Failure &failure) noexcept = 0;
    // A line of the library's own log, with syslog's levels (0 emergency ... 7 debug).
    virtual void log(int level, const char *facility, const char *text) noexcept = 0;
};

// Asked about a partition before a record is queued for it. A partition is what keeps its order: a
// destination that has none of Kafka's kind keeps that of each key, and its sink asks with
// kKeyIsPartition.
class PartitionGate
{
public:
    static constexpr std::int32_t kKeyIsPartition = -1;

    virtual ~PartitionGate() = default;
    virtual bool may_pass(std::int32_t partition) const noexcept = 0;
};

enum class ProduceResult
{
    queued,
    // Serve, then produce the same record again.
    queue_full,
    failed,
    // Of offer() only: nothing is known of the topic yet, or the partition has no leader just now.
    not_yet,
    // Of offer() only: the gate is closed.
    stopped,
};

// What offer() tells besides.
struct Offer
{
    const PartitionGate &gate;
    std::int32_t partition = -1; // that the record goes to; -1: not known
    bool no_leader = false;      // that is why it was refused, or not taken yet
};

// Every queued record gets exactly one delivered() or failed(), unless the sink is closed before.
// Records that go to one partition arrive in the order in which they were queued, and none arrives
// behind one that was given up with the class event. Records given up with the class topic were
// never sent, nor was anything behind them in that partition before they were reported. How the
// order is kept when a record is refused is one of two ways, refuses_batches():
//
// true, Kafka's: several were sent together, and any of them may be the culprit. The sink dies of a
// refusal (see fatal(), Failure::consequence), so whatever had been queued behind it is given up as
// well. The engine opens another sink and finds the culprit by sending fewer.
//
// false: a record is refused alone, and the sink lives on.
//   - failed() with the class event (or topic) says of one record that it was refused. Right behind
//     it, in the same call of serve(), the sink gives up what it has of the same partition, in the
//     order in which that was queued, each with failed() and Failure::consequence: it was not sent
//     and is not going to be. Until then it sends nothing more of that partition, also of what it
//     is given meanwhile. So when serve() has reported it and returns, the sink has nothing more of
//     that partition, and it takes again what it is given of it from then on.
//   - So it has at most one record of a partition on its way that may still be refused: the next
//   one
//     goes out when the one before is acknowledged, or if the destination promises to take nothing
//     behind what it refuses.
//   - Records of other partitions go on as if nothing had happened.
//   - The endpoint's trouble (no connection, a time-out, 5xx, a channel that was closed) is no
//     failure of records. The sink keeps what it has, tries again in order, with the pauses of its
//     settings or those that the destination asks for, and calls trouble() with Failure::summary
//     for each attempt that failed, and retry_after_ms when it knows; the record that met it may be
//     sent twice. What is acknowledged next ends the trouble. reachable() waits for nothing: it
//     says whether the last attempt was answered, so it is false as long as trouble lasts, and true
//     when nothing is outstanding, as then there are no attempts.
//   - It may give a record up for a reason that is not the record's only when it dies.
//   - Each record that is on its way is answered, or counts as trouble, within a time of the sink's
//     own. The engine sets aside what takes long, and does not ask for it back. A sink that has
//     fewer on their way than it is given says which, by visit_begun(), so that those which wait
//     for their turn are not set aside as well.
// Either kind may give a record up with the class gone: the destination asks never to be called
// again. The sink sends nothing more then; the engine closes it.
class Sink
{
public:
    virtual ~Sink() = default;

    virtual bool refuses_batches() const noexcept { return true; }

    // Copies the record into the sink's queue. When it fails, `why` says for what reason and
    // nothing was queued.
    virtual ProduceResult produce(const Record &record, Failure &why) noexcept = 0;
    // The same for a record that would hold others up if it stayed in the queue: it is queued only
    // if its topic is known, its partition has a leader, and the gate, which must have been asked,
    // lets it pass. A partition without a leader, and a topic that is not described as usable, are
    // refused after a moment, with the class topic.
    virtual ProduceResult offer(const Record &record, Offer &offer, Failure &why) noexcept = 0;
    // Whether offer() would not take a record of this key yet, or not let it pass, or would refuse
    // its topic; for one that cannot be built. Its partition is asked for at the gate if it is
    // known.
    virtual ProduceResult place(std::string_view topic, std::string_view key, Offer &offer,
                                Failure &why) noexcept
    {
        static_cast<void>(topic);
        static_cast<void>(key);
        static_cast<void>(offer);
        static_cast<void>(why);
        return ProduceResult::queued;
    }
    // The destination cannot be reached just now: offer() refuses no partition for want of a
    // leader.
    virtual void note_away() noexcept = 0;
    // Whether what offer() did not take yet may be taken now; true once.
    virtual bool take_topics_changed() noexcept = 0;

    // Ends the wait for fuller batches for all that is queued. To be called when the caller has
    // nothing more to hand over for the moment.
    virtual void send_now() noexcept = 0;
    // Hands what has happened to the listener. Stops early after about `max_events`. Returns how
    // many events were handed over.
    virtual std::size_t serve(SinkListener &listener, std::size_t max_events) noexcept = 0;
    // How long the caller may wait for the sink's wake-up before it calls serve() all the same, in
    // ms; -1: there is no limit.
    virtual int serve_within_ms() const noexcept = 0;
    // Calls `visit` for each record that has been on its way, or has met trouble, for so long
    // already, and returns true: what it has besides waits for its turn, which comes as others are
    // answered. False: it cannot tell.
    virtual bool visit_begun(int age_ms, const std::function<void(std::uint64_t tag)> &visit) const
    {
        static_cast<void>(age_ms);
        static_cast<void>(visit);
        return false;
    }
    // How many queued records have no delivered() or failed() yet.
    virtual std::size_t outstanding() const noexcept = 0;

    // Gives up all outstanding records, those on their way too; the next calls of serve() report
    // them as failed, with Failure::consequence. Nothing may be queued from then on, as it could be
    // given up as well, even after all that was outstanding before has been reported.
    virtual void purge() noexcept = 0;
    // Tells whether the sink is dead, and why. Nothing more is sent then; what is outstanding is
    // still reported, within the time that the destination needs to answer for what is on its way.
    virtual bool fatal(Failure &why) const noexcept = 0;
    // Drops what is outstanding; what is on its way may still arrive, in its order, but nothing
    // that was not sent. Waits at most this long for the library's threads. Returns false when they
    // did not end in time; then they end by themselves. Nothing else may be called afterwards.
    virtual bool close(int timeout_ms) noexcept = 0;
    // Asks the destination for something, and waits for the answer at most this long.
    virtual bool reachable(int timeout_ms) noexcept = 0;
};

// A sink without partitions: the order is that of each key, and nothing is known of topics before
// a record is sent. What is left to say is produce(), which returns queued, queue_full or failed,
// and what follows send_now() above.
class KeyedSink : public Sink
{
public:
    bool refuses_batches() const noexcept override { return false; }
    ProduceResult offer(const Record &record, Offer &offer, Failure &why) noexcept override
    {
        return offer.gate.may_pass(PartitionGate::kKeyIsPartition) ? produce(record, why)
                                                                   : ProduceResult::stopped;
    }
    ProduceResult place(std::string_view, std::string_view, Offer &offer,
                        Failure &) noexcept override
    {
        return offer.gate.may_pass(PartitionGate::kKeyIsPartition) ? ProduceResult::queued
                                                                   : ProduceResult::stopped;
    }
    void note_away() noexcept override {}
    bool take_topics_changed() noexcept override { return false; }
};

// Opens sinks.
class Destination
{
public:
    // Each has a sink of its own, so that what one meets the others do not notice.
    enum class Use : unsigned char
    {
        stream,
        redelivery,
        replay
    };

    virtual ~Destination() = default;
    // A sink that connects in the background; null and the reason, or null with class none when
    // there is to be none at present. Its batches are smaller by half for each time that one was
    // too large. May throw std::bad_alloc.
    virtual std::unique_ptr<Sink> open(Use use, int oversized_batches, Failure &why) = 0;

    // Readable whenever the sink of this use has work for serve(): an eventfd, or an epoll
    // descriptor that holds others. It is there from the beginning, the same for every sink of the
    // use, and stays open as long as this lives. -1: there is none.
    virtual int wake_fd(Use) const noexcept { return -1; }
    // Whether serve() may come some milliseconds late while commits come fast: the sink has threads
    // of its own that need no help to send.
    virtual bool may_hear_late() const noexcept { return false; }
    // How messages name it, "Kafka takes no events for …", and the library whose lines are logged.
    virtual const char *title() const noexcept { return "Kafka"; }
    virtual const char *library() const noexcept { return "librdkafka"; }
};

} // namespace outbox
