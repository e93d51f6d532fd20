#include "outbox/dedup_store.h"

#include "postgres_store.h"
#include "text.h"

namespace outbox::v0
{

DedupStore::~DedupStore() = default;

std::vector<std::string>
DedupStore::claim_many(PGconn *transaction, const std::string &consumer,
                       const std::vector<std::string> &event_ids)
{
    std::vector<std::string> first;
    for (const std::string &id : event_ids)
        if (claim(transaction, consumer, id) == Claim::first)
            first.push_back(id);
    return first;
}

bool
DedupStore::confirm(const std::string & /*consumer*/, const std::string & /*event_id*/)
{
    return true;
}

void
DedupStore::release(const std::string & /*consumer*/, const std::string & /*event_id*/)
{
}

namespace detail
{

Claim
PostgresStore::claim(PGconn * /*transaction*/, const std::string &consumer,
                     const std::string &event_id)
{
    const Result result =
        database_.exec("select outbox.mark_processed($1, $2)", {event_id, consumer});
    return result.text(0, 0) == "t" ? Claim::first : Claim::repeated;
}

std::vector<std::string>
PostgresStore::claim_many(PGconn * /*transaction*/, const std::string &consumer,
                          const std::vector<std::string> &event_ids)
{
    ArrayLiteral ids;
    for (const std::string &id : event_ids)
        ids.add(id);
    const Result result =
        database_.exec("select outbox.mark_processed_many($1, $2)", {ids.finish(), consumer});
    std::vector<std::string> first;
    first.reserve(static_cast<std::size_t>(result.rows()));
    for (int row = 0; row < result.rows(); ++row)
        first.push_back(result.text(row, 0));
    return first;
}

} // namespace detail

} // namespace outbox::v0
