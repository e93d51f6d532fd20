// The exceptions of the client library:
//
//   Error                    all of them; code() says what happened in a form to decide by
//   ├── UsageError           an argument, an option or the moment of a call is wrong
//   ├── DatabaseError        PostgreSQL refused a statement, or the connection to it is lost
//   ├── StoreError           a dedup store outside of PostgreSQL cannot be reached or answers oddly
//   └── KafkaError           Kafka, or librdkafka, reports a failure that does not pass by itself
//       └── DeadLetterError  a record could not be written to its dead-letter topic
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "export.h"

namespace outbox
{
inline namespace v0
{

class OUTBOX_API Error : public std::runtime_error
{
public:
    Error(const std::string &message, std::string code);
    ~Error() override;

    // Of a KafkaError Kafka's name for the error, such as "TOPIC_AUTHORIZATION_FAILED"
    // (librdkafka's own begin with "_"), of the others the SQLSTATE, five characters. Never empty.
    const std::string &code() const noexcept { return code_; }

private:
    std::string code_;
};

// The caller's mistake: nothing was sent or changed. code() is "22023" for a bad value, "25000" or
// one of its class for a transaction that is not in the state the function needs, "55000" for a
// call at a wrong moment.
class OUTBOX_API UsageError : public Error
{
public:
    explicit UsageError(const std::string &message, std::string code = "22023");
    ~UsageError() override;
};

// code() is the server's SQLSTATE; "08006" if the connection broke, and "08001" if there was none
// to be had.
class OUTBOX_API DatabaseError : public Error
{
public:
    DatabaseError(const std::string &message, std::string sqlstate, std::string hint = "");
    ~DatabaseError() override;

    // The server's advice; empty if it gave none.
    const std::string &hint() const noexcept { return hint_; }
    // Class 08, or the server ended the session (57P01 to 57P05): outcomes may be unknown.
    bool connection_lost() const noexcept;
    // The same transaction may succeed next time: class 40 (serialization failure, deadlock), and
    // what the server lacks until somebody has seen to it: space on disk, memory, connections
    // (class 53, but 53400, a limit that is configured), I/O (class 58, but 58000, and 58P01 and
    // 58P02, a file that is not there or is there already).
    bool transient() const noexcept;

private:
    std::string hint_;
};

// code() is "08006" if the store cannot be reached, "58000" if it refuses a command.
class OUTBOX_API StoreError : public Error
{
public:
    StoreError(const std::string &message, std::string code);
    ~StoreError() override;
};

class OUTBOX_API KafkaError : public Error
{
public:
    KafkaError(const std::string &message, std::string name);
    ~KafkaError() override;
};

// The record named here stays unprocessed, and its offset is not committed: a consumer that starts
// again meets it again.
class OUTBOX_API DeadLetterError : public KafkaError
{
public:
    DeadLetterError(const std::string &message, std::string name, std::string topic,
                    std::int32_t partition, std::int64_t offset);
    ~DeadLetterError() override;

    const std::string &topic() const noexcept { return topic_; } // the record's own
    std::int32_t partition() const noexcept { return partition_; }
    std::int64_t offset() const noexcept { return offset_; }

private:
    std::string topic_;
    std::int32_t partition_;
    std::int64_t offset_;
};

} // namespace v0
} // namespace outbox
