// Where a consumer keeps which events it has processed.
#pragma once

#include <string>
#include <vector>

#include <libpq-fe.h>

#include "export.h"

namespace outbox
{
inline namespace v0
{

enum class Claim
{
    first,    // nobody has processed the event: the effect is the caller's to make
    repeated, // it has been processed: leave the effect out
    busy      // somebody is processing it just now: ask again later. The consumer rolls back, and
              // asks again after a pause for as long as it takes; the records behind it wait
};

// A store of one of two kinds.
//
// In a transactional one a claim is part of the PostgreSQL transaction that the effect is part of
// too: it is kept when that commits and gone when it does not, so the effect happens exactly once.
//
// Any other store is asked before the effect and told after it. What it can promise at best is an
// effect at least once, with repeats only where a process died, or lost the store, in between.
class OUTBOX_API DedupStore
{
public:
    virtual ~DedupStore();

    virtual bool transactional() const noexcept = 0;

    // Claims an event for a consumer. `transaction` is a connection with an open transaction for a
    // transactional store, and null for others. Throws an Error if the store does not answer.
    virtual Claim claim(PGconn *transaction, const std::string &consumer,
                        const std::string &event_id) = 0;

    // Claims many at once in a transactional store and returns those that are new, each once, in
    // any order. As it is here it asks for one after the other. Of those that are left out the
    // consumer asks by claim() in the same transaction: if somebody is processing one, the batch is
    // rolled back and done one by one.
    virtual std::vector<std::string> claim_many(PGconn *transaction, const std::string &consumer,
                                                const std::vector<std::string> &event_ids);

    // The effect was made. False if the claim had expired by then, so that another consumer may
    // have made it too. Not called for transactional stores.
    virtual bool confirm(const std::string &consumer, const std::string &event_id);

    // The effect was not made: the event can be claimed again. Not called for transactional stores.
    virtual void release(const std::string &consumer, const std::string &event_id);
};

} // namespace v0
} // namespace outbox
