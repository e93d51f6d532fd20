#include "attempt.h"

namespace outbox
{

bool
is_of_the_event(int sqlerrcode)
{
    switch (ERRCODE_TO_CATEGORY(sqlerrcode))
    {
    case ERRCODE_OPERATOR_INTERVENTION:
    case ERRCODE_TRANSACTION_ROLLBACK:
    case ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE: // locks
        return false;
    default:
        return true;
    }
}

void
describe_error(int sqlerrcode, const char *message, Failure *why)
{
    *why = {};
    why->cls = FailureClass::event;
    strlcpy(why->name, unpack_sql_state(sqlerrcode), sizeof(why->name));
    if (message == nullptr)
        return;
    // In the database's encoding, as the rest of what outbox.deliveries holds.
    const int length = static_cast<int>(strlen(message));
    const int fitting = pg_mbcliplen(message, length, sizeof(why->text) - 1);
    memcpy(why->text, message, static_cast<size_t>(fitting));
    why->text[fitting] = '\0';
}

} // namespace outbox
