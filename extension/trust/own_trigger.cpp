#include "own_trigger.h"

#include "own_relations.h"

extern "C"
{
#include "catalog/pg_trigger.h"
}

namespace outbox
{

namespace
{

bool
is_events_partition(Oid table)
{
    for (int slot = 0; slot < kRingSlots; slot++)
        if (events_table(slot) == table)
            return true;
    return false;
}

bool
is_own_table(Relation relation, const char *table)
{
    const Oid oid = RelationGetRelid(relation);
    return strcmp(table, "events") == 0 ? is_events_partition(oid)
                                        : find_own_relation(table) == oid;
}

bool
fires_before_insert(const Trigger &trigger)
{
    if (!TRIGGER_TYPE_MATCHES(trigger.tgtype, TRIGGER_TYPE_ROW, TRIGGER_TYPE_BEFORE,
                              TRIGGER_TYPE_INSERT))
        return false;
    switch (trigger.tgenabled)
    {
    case TRIGGER_FIRES_ALWAYS:
        return true;
    case TRIGGER_FIRES_ON_ORIGIN:
        return SessionReplicationRole != SESSION_REPLICATION_ROLE_REPLICA;
    case TRIGGER_FIRES_ON_REPLICA:
        return SessionReplicationRole == SESSION_REPLICATION_ROLE_REPLICA;
    default:
        return false;
    }
}

bool
fires_for_every_row(const Trigger &trigger)
{
    return fires_before_insert(trigger) && trigger.tgenabled == TRIGGER_FIRES_ALWAYS &&
           trigger.tgqual == nullptr;
}

} // namespace

TriggerData *
own_trigger(FunctionCallInfo fcinfo, const char *function, const char *table, Firing firing)
{
    if (!CALLED_AS_TRIGGER(fcinfo))
        ereport(ERROR, (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
                        errmsg("outbox.%s() is a trigger function", function),
                        errhint("It belongs to outbox.%s and cannot be called directly.", table)));
    TriggerData *data = reinterpret_cast<TriggerData *>(fcinfo->context);
    if (!is_own_table(data->tg_relation, table))
        ereport(ERROR, (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
                        errmsg("outbox.%s() does not belong to table \"%s\"", function,
                               RelationGetRelationName(data->tg_relation)),
                        errhint("It belongs to outbox.%s.", table)));
    if (firing == Firing::before_insert_row &&
        (!TRIGGER_FIRED_BEFORE(data->tg_event) || !TRIGGER_FIRED_BY_INSERT(data->tg_event) ||
         !TRIGGER_FIRED_FOR_ROW(data->tg_event)))
        ereport(ERROR, (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
                        errmsg("outbox.%s() must be fired before insert for each row of outbox.%s",
                               function, table)));
    return data;
}

bool
is_repeated(const TriggerData *data)
{
    const TriggerDesc *all = data->tg_relation->trigdesc;
    for (int i = 0; all != nullptr && i < all->numtriggers; i++)
    {
        const Trigger &trigger = all->triggers[i];
        if (trigger.tgfoid == data->tg_trigger->tgfoid && fires_for_every_row(trigger))
            return trigger.tgoid != data->tg_trigger->tgoid;
    }
    return false;
}

namespace
{

// The name of the first other trigger that could change the row before this one is met, on the way
// through all in the order in which they fire, or against it; or null.
const char *
other_trigger(const TriggerData *data, bool last_first)
{
    const TriggerDesc *all = data->tg_relation->trigdesc;
    const int count = all == nullptr ? 0 : all->numtriggers;
    for (int i = 0; i < count; i++)
    {
        const Trigger &trigger = all->triggers[last_first ? count - 1 - i : i];
        if (trigger.tgoid == data->tg_trigger->tgoid)
            return nullptr;
        if (fires_before_insert(trigger) && trigger.tgfoid != data->tg_trigger->tgfoid)
            return pstrdup(trigger.tgname);
    }
    return nullptr;
}

} // namespace

const char *
later_trigger(const TriggerData *data)
{
    return other_trigger(data, true);
}

const char *
earlier_trigger(const TriggerData *data)
{
    return other_trigger(data, false);
}

} // namespace outbox
