// Consuming events so that each has its effect once.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <libpq-fe.h>

#include "dedup_store.h"
#include "export.h"

namespace outbox
{
inline namespace v0
{

struct Header
{
    std::string name;
    std::optional<std::string> value;
};

// A record as it came from Kafka. Null is not the same as empty.
struct OUTBOX_API Record
{
    std::string topic;
    std::int32_t partition = 0;
    std::int64_t offset = 0;
    std::int64_t timestamp_ms = 0; // since 1970, UTC
    std::optional<std::string> key;
    std::optional<std::string> value;
    std::vector<Header> headers; // in their order
    std::string event_id;        // from the header "id" or else "ce_id", in lower case

    // The last header of that name; nothing when it is missing or null.
    std::optional<std::string> header(std::string_view name) const;
};

// Makes the effect of one event. `transaction` is a connection with an open transaction, in which
// the event is already marked as processed; the handler neither ends that transaction, nor closes
// the connection, nor lets an error of SQL in it pass. A commit is refused with SQLSTATE 2D000 (by
// a server's library from 0.2.1 on; an older one's is noticed). With a store that is not
// transactional it is null. Returning means: the effect is made. Any exception means: it is not;
// everything done in the transaction is rolled back. Afterwards the session's settings, role,
// channels, cursors and advisory locks are as they were when the connection was made; temporary
// tables and prepared statements stay. A handler does not end its thread (pthread_exit), nor may
// that of run() be cancelled (pthread_cancel): the process would abort.
using Handler = std::function<void(PGconn *transaction, const Record &record)>;

enum class OffsetPolicy
{
    kafka, // the group's offsets in Kafka say where to continue
    // outbox.record_offset(), in the transaction of the effect and before the handler. They are
    // read again after each new connection, so commits that a server has lost are made again. Where
    // there is none yet, the group's in Kafka, which are committed as well, for tools that show how
    // far a group is, and to know where to begin again when there is none any more.
    postgres
};

enum class LogLevel
{
    info,
    warning,
    error
};

struct ConsumerOptions
{
    // Name under which events are marked as processed, and the consumer group; at most 255
    // characters. All processes that share the work use the same one.
    std::string consumer;
    std::string bootstrap_servers; // host:port[,host:port...]
    std::vector<std::string> topics;
    // Of libpq, for the connection that handlers get. Only with a transactional store. Of several
    // hosts, and of several addresses of one, each has connect_timeout (10 s unless set), and so
    // has the name service.
    std::string conninfo;

    // Properties of librdkafka, for the consumer and for the producer of dead letters. Those that
    // would break a promise are refused with the reason; README.md lists them.
    std::map<std::string, std::string> kafka_config;

    OffsetPolicy offsets = OffsetPolicy::kafka;
    // Where it is kept which events were processed. None: outbox.mark_processed() in the handler's
    // transaction, which never says busy, as a concurrent duplicate waits for the first to end.
    std::shared_ptr<DedupStore> store;

    // Most records of one transaction, 1 to 10,000; fewer when they come to 16 MiB. If a handler
    // fails in a transaction of several, they are rolled back and done again one by one. Between
    // handlers deferred triggers run, ON COMMIT of temporary tables is carried out, and the session
    // is reset, as with a batch of one. Only with a transactional store.
    std::size_t batch = 1;

    // A handler that fails is called again until it has failed this often (1 to 1,000), with
    // pauses that double from `backoff_initial` to `backoff_max`, less up to a half at random.
    // Serialization failures, deadlocks, lost connections and failures of the store do not count,
    // and are tried for ever; but a record in whose handler the connection is lost 10 times, or
    // max_attempts if that is more, has failed.
    int max_attempts = 5;
    std::chrono::milliseconds backoff_initial{100};
    std::chrono::milliseconds backoff_max{10000};

    // Then the record goes to its topic's name with this suffix. If Kafka has not taken it there
    // before the time-out, run() ends with a DeadLetterError.
    std::string dead_letter_suffix = ".dlq";
    std::chrono::milliseconds dead_letter_timeout{30000};

    // How often offsets are committed to Kafka; they are as well before partitions are given up.
    std::chrono::milliseconds commit_interval{500};
    // One budget for what run() waits for when it ends, see stop().
    std::chrono::milliseconds close_timeout{10000};

    // Gets one line of text for everything that a person may want to know, from the thread of
    // run() or of ~Consumer(). Never contains passwords. None: warnings and errors go to stderr.
    std::function<void(LogLevel, const std::string &)> log;
};

// A member of a consumer group. For each record, in the order of its partition:
//
//     begin; mark_processed; [record_offset;] handler; commit; then the offset goes to Kafka
//
// so a record that comes again, after a crash, a lost connection or a rebalance, finds its event
// marked and is left out. Records of read-uncommitted transactions are not seen. A record without
// a UUID in its header "id" or "ce_id" (CloudEvents) goes to the dead letters at once.
//
// Everything happens in the thread that calls run(). A record that is being retried holds up the
// others of this member, not those of other members.
class OUTBOX_API Consumer
{
public:
    // Checks the options and throws UsageError, or Error 53000 as run() does; connects to nothing
    // yet.
    Consumer(const ConsumerOptions &options, Handler handler);
    ~Consumer();
    Consumer(const Consumer &) = delete;
    Consumer &operator=(const Consumer &) = delete;

    // Consumes until stop(), then leaves the group and returns. Connections that are lost, or not
    // there yet, are made again for as long as it takes. Throws what a person has to look at, after
    // leaving the group in good order and with nothing lost: DeadLetterError; KafkaError for fatal
    // errors of librdkafka, offsets that cannot be reset, and records that cannot be read, which
    // have another checksum than they were written with, say; DatabaseError if the database lacks
    // the extension or a right, or does not take the consumer's name (classes 3F, 42 and 22);
    // UsageError (55000) if it runs already; Error 53000 if the process cannot open one descriptor
    // or start one thread more, 53200 if it has no memory for a record, and 58000 for what nobody
    // expects; nothing else. May be called again.
    void run();

    // Makes run() return as soon as the handler that is running has ended and its transaction is
    // committed, with all handlers of its batch; at once if there is none. Then run() takes
    // close_timeout for all of the commit, the dedup store in Redis, the offsets and leaving the
    // group, and at most 12 s more, whoever does not answer: PostgreSQL, Redis, Kafka, a name
    // service. librdkafka's threads have 5 s of these to end, and as long in ~Consumer(). A client
    // that has not ended by then is left behind, and a warning says so: it keeps its memory,
    // threads and connections until it ends by itself, and calls nothing of the application's. With
    // librdkafka before 2.3 and cooperative rebalancing, a stop() before the first assignment
    // leaves one behind for ever: 4 threads and 10 descriptors each time. exit() would run its
    // handlers beside the threads of such a client: end the process by _exit() instead. What was
    // not committed in time is done again by whoever comes next. A DedupStore of your own takes its
    // own time. May be called from any thread and from a signal handler. A stop() before run(),
    // or while a run() leaves with an exception, makes the next one return at once.
    void stop() noexcept;

private:
    class OUTBOX_LOCAL Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace v0
} // namespace outbox
