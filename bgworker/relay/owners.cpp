#include "relay.h"

#include "owners.h"

#include "extension/trust.h"

namespace outbox
{

void
refuse_foreign_owners()
{
    char problem[512];
    if (!objects_are_trusted(problem, sizeof(problem)) ||
        !schema_is_closed(problem, sizeof(problem)))
        stop_for_a_person(problem);
}

} // namespace outbox
