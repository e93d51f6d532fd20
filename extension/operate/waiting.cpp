#include "waiting.h"

#include "extension/emit/transaction.h"
#include "extension/server/rolled_back.h"
#include "extension/shared/subscription_slots.h"
#include "extension/trust/own_relations.h"

namespace outbox
{

namespace
{

constexpr long kLookAgainMs = 1000;

const Oid kNameTypes[] = {TEXTOID};

KeptStatement find_subscriptions = {
    "select s.name, s.detached_at is null from outbox.subscriptions s "
    "where $1 is null or s.name = $1 order by s.name",
    "look for subscriptions", 1, kNameTypes, nullptr};

KeptStatement find_attached = {
    "select s.detached_at is null from outbox.subscriptions s where s.name = $1",
    "look for subscriptions", 1, kNameTypes, nullptr};

KeptStatement find_detached = {"select where outbox.is_detached('default')",
                               "look for subscriptions", 0, nullptr, nullptr};

// That of the subscription; null: it has none now.
RelayEntry *
relay_of(const Awaited &place)
{
    DatabaseSlot *slot = find_slot(MyDatabaseId);
    if (slot == nullptr || place.subscription == nullptr)
        return slot == nullptr ? nullptr : &slot->relay;
    SubscriptionSlot *found = find_subscription(*slot, place.subscription);
    return found == nullptr ? nullptr : &found->relay;
}

// Sleeps until the relay has written its position since `seen` were counted, a second at most.
void
sleep_for(RelayEntry *relay, uint64 seen, long ms)
{
    static uint32 wait_event = 0;
    if (wait_event == 0)
        wait_event = named_wait_event("OutboxWaitPublished");
    const long at_most = Min(ms, kLookAgainMs);
    if (relay == nullptr)
    {
        // Not preloaded: no relay in this server; a restart may still bring one. Or the launcher
        // has not started it yet.
        (void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, at_most,
                         wait_event);
        ResetLatch(MyLatch);
    }
    else
    {
        note_waiting(relay);
        // Only from here on is a broadcast heard: the end of the look's subtransaction ends it.
        ConditionVariablePrepareToSleep(&relay->position_written);
        if (pg_atomic_read_u64(&relay->positions) == seen)
            (void) ConditionVariableTimedSleep(&relay->position_written, at_most, wait_event);
        ConditionVariableCancelSleep();
    }
    CHECK_FOR_INTERRUPTS();
}

// Adds those of this name besides `default` that are attached; null: all. A database that is older
// than the library has no such table.
void
add_subscriptions(const char *name, MemoryContext outer, List *&found)
{
    if (!OidIsValid(find_own_relation("subscriptions")))
        return;
    Datum value = name == nullptr ? 0 : CStringGetTextDatum(name);
    const char nulls[] = {name == nullptr ? 'n' : ' ', '\0'};
    connect_spi();
    const uint64 count = run_statement(&find_subscriptions, &value, nulls, SPI_OK_SELECT, false, 0);
    for (uint64 i = 0; i < count; i++)
    {
        bool is_null;
        const HeapTuple row = SPI_tuptable->vals[i];
        const MemoryContext inner = MemoryContextSwitchTo(outer);
        char *found_name = SPI_getvalue(row, SPI_tuptable->tupdesc, 1);
        if (DatumGetBool(SPI_getbinval(row, SPI_tuptable->tupdesc, 2, &is_null)))
            found = lappend(found, pstrdup(found_name));
        else if (name != nullptr)
            raise_detached(name);
        (void) MemoryContextSwitchTo(inner);
    }
    finish_spi();
}

[[noreturn]] void
raise_no_subscription(const char *name)
{
    ereport(ERROR,
            (errcode(ERRCODE_UNDEFINED_OBJECT), errmsg("there is no subscription \"%s\"", name),
             errhint("The view outbox.subscription_status shows which there are.")));
}

} // namespace

bool
select_row(KeptStatement *statement, Datum *values)
{
    return run_statement(statement, values, nullptr, SPI_OK_SELECT, false, 1) == 1;
}

void
refuse_unfit_transaction(const char *function)
{
    if (IsolationUsesXactSnapshot())
        ereport(ERROR,
                (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                 errmsg("outbox.%s() does not work in a %s transaction", function,
                        XactIsoLevel == XACT_SERIALIZABLE ? "serializable" : "repeatable read"),
                 errhint("Call it in a READ COMMITTED transaction: the others do not see "
                         "what happens after they began.")));
    if (transaction_has_emitted())
        ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                        errmsg("outbox.%s() called in a transaction that emitted events", function),
                        errhint("Commit first: nothing is published before.")));
}

bool
look(Condition condition, Awaited &place)
{
    return rolled_back(
        [&]
        {
            connect_spi();
            const bool holds = condition(place);
            finish_spi();
            return holds;
        });
}

bool
wait_for(Condition condition, Awaited place, const Deadline &deadline)
{
    for (;;)
    {
        RelayEntry *relay = relay_of(place);
        const uint64 seen = relay != nullptr ? pg_atomic_read_u64(&relay->positions) : 0;
        const bool holds = look(condition, place);
        const long left = deadline.milliseconds_left();
        if (holds || left == 0)
            return holds;
        sleep_for(relay, seen, left);
    }
}

bool
default_is_detached()
{
    Awaited of = {};
    return look(
        [](Awaited &)
        {
            // An older database has no such table.
            if (!OidIsValid(find_own_relation("subscription_history")))
                return false;
            const bool detached = select_row(&find_detached, nullptr);
            SPI_freetuptable(SPI_tuptable);
            return detached;
        },
        of);
}

void
raise_detached(const char *name)
{
    ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                    errmsg("subscription \"%s\" is detached", name),
                    errhint("It sends nothing before outbox.attach_subscription().")));
}

void
require_attached(const Awaited &place)
{
    Datum name = CStringGetTextDatum(place.subscription);
    if (!select_row(&find_attached, &name))
        raise_no_subscription(place.subscription);
    bool is_null;
    if (!DatumGetBool(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &is_null)))
        raise_detached(place.subscription);
    SPI_freetuptable(SPI_tuptable);
}

List *
named_subscriptions(const char *name)
{
    List *found = NIL;
    const MemoryContext outer = CurrentMemoryContext;
    (void) rolled_back(
        [&]
        {
            add_subscriptions(name, outer, found);
            return true;
        });
    return found;
}

char *
existing_subscription(Datum argument)
{
    char *name = text_to_cstring(DatumGetTextPP(argument));
    if (strcmp(name, "default") == 0)
        return nullptr;
    if (named_subscriptions(name) == NIL)
        raise_no_subscription(name);
    return name;
}

} // namespace outbox
