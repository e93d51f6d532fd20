// The default dedup store: outbox.mark_processed() in the transaction of the effect.
#pragma once

#include <string>
#include <vector>

#include "database.h"
#include "outbox/dedup_store.h"

namespace outbox::v0::detail
{

// Its statements go through `database`, so that a wait for a concurrent duplicate can be given up.
class PostgresStore : public DedupStore
{
public:
    explicit PostgresStore(Database &database) : database_(database) {}

    bool transactional() const noexcept override { return true; }
    Claim claim(PGconn *transaction, const std::string &consumer,
                const std::string &event_id) override;
    std::vector<std::string> claim_many(PGconn *transaction, const std::string &consumer,
                                        const std::vector<std::string> &event_ids) override;

private:
    Database &database_;
};

} // namespace outbox::v0::detail
