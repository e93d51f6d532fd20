// Requests that may come twice, such as an HTTP request with an Idempotency-Key, answered once.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include <libpq-fe.h>

#include "export.h"

namespace outbox
{
inline namespace v0
{

// The answer to a request, as it is stored and given again.
struct Response
{
    int status = 200; // of HTTP
    std::string body;
    std::string content_type;
    std::map<std::string, std::string> headers;
};

enum class RequestMode
{
    single_tx, // the key lives and dies with the transaction that does the work
    two_phase  // for work outside of the database: the key is leased until it is completed
};

struct RequestOptions
{
    RequestMode mode = RequestMode::single_tx;
    std::chrono::milliseconds ttl = std::chrono::hours(24);    // for how long the answer is kept
    std::chrono::milliseconds lease = std::chrono::minutes(1); // of two_phase
};

// What outbox.request_hash() makes of a request: 32 bytes. Throws as IdempotentRequest does.
OUTBOX_API std::string request_hash(PGconn *connection, std::string_view method,
                                    std::string_view path, std::string_view body);

// Asks, in its constructor, whether the work of a request is to be done, and holds its key while it
// is. If it is destroyed before complete(), because an exception passes or the work was refused,
// the key is released, and the next request with it starts anew.
//
//     outbox::IdempotentRequest request(connection, "payments:" + client, key, hash);
//     if (!request.to_be_done())
//         return answer_to(request);       // request.outcome() says which
//     outbox::Response response = pay(connection);
//     request.complete(response);
//
// With single_tx a transaction must be open, which does the work; the caller commits it after
// complete(). With two_phase none may be open when it is constructed: the key is leased at once,
// and complete() belongs into the transaction, if any, that makes the work last.
//
// The connection is the caller's; it outlives the object. Throws UsageError (25P01, 25001: wrong
// state of the transaction; 22023: zero bytes) and DatabaseError: 22023 and 22004 for arguments
// that outbox.idempotency_begin() refuses, 08006 if the connection is lost or was never made. If it
// is lost in the constructor of two_phase, the key may be leased, until its lease is over.
class OUTBOX_API IdempotentRequest
{
public:
    enum class Outcome
    {
        started,     // do the work
        taken_over,  // do the work: the lease of one that began it has run out (two_phase)
        replay,      // done before: response() is the answer
        in_progress, // somebody is at it: HTTP 409 with Retry-After: retry_after()
        mismatch     // the key belongs to another request: HTTP 422
    };

    IdempotentRequest(PGconn *connection, std::string scope, std::string key,
                      std::string_view request_hash, const RequestOptions &options = {});
    // Releases the key unless it was completed, leaves a transaction that is open as it was, and
    // throws nothing. It asks the server what the key's state is, unless all was done outside of a
    // transaction, so a completion or release that has been rolled back since, to a savepoint or
    // altogether, is none. It waits for other sessions for 5 s at most, and for the network as the
    // connection does.
    //
    // With single_tx the key shares the fate of the transaction in which the object was made: if
    // that has been committed without complete(), the work is done and the key stays, without an
    // answer, which a line on stderr tells. Nothing is done in another transaction. In one that is
    // open still the key is released, unless complete() or release() was undone by a rollback to a
    // savepoint, of which a line tells. Nothing can be done in a transaction that has failed, or
    // while a statement, a COPY or a pipeline is under way. If such a transaction is committed or
    // prepared later, as after a rollback to a savepoint, and the key may be in it without an
    // answer, a line tells of it then, and so if a savepoint takes back what was done before. Which
    // savepoint a statement is about cannot be seen, nor whether AND CHAIN was in it: so a line may
    // say "may be" of a key that has its answer, or is free, and there is none if a stray BEGIN is
    // what follows a rollback to a savepoint. Of more than 1000 requests that wait for the end of
    // their transaction, the oldest are not told of. For all that libpq shows us the statements of
    // the connection (PQregisterEventProc), from the constructor on, and the library is never
    // unloaded. A connection that is lost is taken to have taken its transaction along.
    //
    // With two_phase, outside of a transaction: the key is completed or free, or a line tells why
    // not. Within an open one only its end decides, which is after the object's: a release is part
    // of it, and so is what complete() and release() did in it. If it is rolled back then, to a
    // savepoint too, or its connection ends without a word of its commit, a line on stderr says
    // until when the key is leased, as it does at once if the transaction has failed or the
    // connection is lost. The key is free only then. So let the object be made before, and
    // destroyed after, whatever ends the transaction:
    //
    //     outbox::IdempotentRequest request(connection, scope, key, hash, two_phase);
    //     Transaction transaction(connection); // rolls back when an exception passes
    ~IdempotentRequest();
    IdempotentRequest(const IdempotentRequest &) = delete;
    IdempotentRequest &operator=(const IdempotentRequest &) = delete;

    Outcome outcome() const noexcept { return outcome_; }
    // started or taken_over, and neither completed nor released yet.
    bool to_be_done() const noexcept { return held_; }

    // With replay: what complete() was given.
    const Response &response() const noexcept { return response_; }
    // With in_progress: when it is worth to ask again. Zero if nobody can know.
    std::chrono::milliseconds retry_after() const noexcept { return retry_after_; }

    // Stores the answer for those that come with the same key. Throws UsageError 55000 if the key
    // is not held, DatabaseError 55000 if somebody has taken it over, 54000 if the answer is larger
    // than outbox.max_response_size.
    void complete(const Response &response);

    // Gives the key back without an answer, such as for a request that is not valid. Throws as
    // complete(); and with single_tx UsageError 25000 if the transaction has ended in which the
    // object was made.
    void release();

private:
    static constexpr char kSeparator = '\n';
    enum Part // of owner_
    {
        kOwner,
        kHash,        // of the request, in hex
        kTransaction, // in which the key was begun, completed or released
        kFollowed,    // the number by which that is followed; of single_tx
        kLease        // when it ends; of two_phase
    };

    void require_held() const;
    OUTBOX_LOCAL std::string part(Part number) const;
    OUTBOX_LOCAL bool in_transaction() const;
    OUTBOX_LOCAL void warn(const char *what, const char *detail = "") const noexcept;
    OUTBOX_LOCAL void warn_of_lease(const char *why) const noexcept;
    OUTBOX_LOCAL void warn_unless_committed(const char *why) const;
    OUTBOX_LOCAL std::string ask_state() const;
    OUTBOX_LOCAL void release_within() const;
    OUTBOX_LOCAL void release_apart() const;
    OUTBOX_LOCAL std::uint64_t followed() const noexcept;
    OUTBOX_LOCAL std::string line_that(const char *what) const;
    OUTBOX_LOCAL void note_free() const;
    OUTBOX_LOCAL void tell_if_unanswered() const;
    OUTBOX_LOCAL void leave_single() const;
    OUTBOX_LOCAL void leave_two_phase() const;
    OUTBOX_LOCAL void end_within(const std::string &transaction, bool released);

    PGconn *connection_;
    const std::string scope_;
    const std::string key_;
    const RequestMode mode_;
    std::string owner_; // and what else has to be remembered; the object keeps the size it has
    Outcome outcome_ = Outcome::mismatch;
    bool held_ = false;
    bool in_doubt_ = false; // completed or released in a transaction that may be rolled back
    Response response_;
    std::chrono::milliseconds retry_after_{};
};

} // namespace v0
} // namespace outbox
