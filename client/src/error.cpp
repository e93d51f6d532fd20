#include "outbox/error.h"

#include <utility>

namespace outbox::v0
{

Error::Error(const std::string &message, std::string code)
    : std::runtime_error(message), code_(std::move(code))
{
}
Error::~Error() = default;

UsageError::UsageError(const std::string &message, std::string code)
    : Error(message, std::move(code))
{
}
UsageError::~UsageError() = default;

DatabaseError::DatabaseError(const std::string &message, std::string sqlstate, std::string hint)
    : Error(message, std::move(sqlstate)), hint_(std::move(hint))
{
}
DatabaseError::~DatabaseError() = default;

bool
DatabaseError::connection_lost() const noexcept
{
    // 57P01 to 57P05: the server shuts down, crashed, does not accept sessions yet, dropped the
    // database, or ended an idle session.
    return code().compare(0, 2, "08") == 0 || code().compare(0, 4, "57P0") == 0;
}

bool
DatabaseError::transient() const noexcept
{
    // The same transaction meets temp_file_limit (53400) again, and a file that is not there
    // (58P01), or is there already (58P02). 58000 is also libpq's own error.
    const std::string type = code().substr(0, 2);
    return type == "40" || (type == "53" && code() != "53400") ||
           (type == "58" && code() != "58000" && code() != "58P01" && code() != "58P02");
}

StoreError::StoreError(const std::string &message, std::string code)
    : Error(message, std::move(code))
{
}
StoreError::~StoreError() = default;

KafkaError::KafkaError(const std::string &message, std::string name)
    : Error(message, std::move(name))
{
}
KafkaError::~KafkaError() = default;

DeadLetterError::DeadLetterError(const std::string &message, std::string name, std::string topic,
                                 std::int32_t partition, std::int64_t offset)
    : KafkaError(message, std::move(name)), topic_(std::move(topic)), partition_(partition),
      offset_(offset)
{
}
DeadLetterError::~DeadLetterError() = default;

} // namespace outbox::v0
