#include "event_layout.h"

#include "extension/trust/own_relations.h"

extern "C"
{
#include "catalog/partition.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_trigger.h"
}

namespace outbox
{

namespace
{

struct Expected
{
    const char *name;
    Oid type;
    bool not_null;
};

// In the order of EventColumn; sql/events.sql is the other side.
constexpr Expected kExpected[kEventColumns] = {
    {"seq", INT8OID, true},
    {"xid", INT8OID, true},
    {"created_at", TIMESTAMPTZOID, true},
    {"id", UUIDOID, true},
    {"schema_version", INT4OID, false},
    {"slot", INT2OID, true},
    {"aggregate_type", TEXTOID, true},
    {"aggregate_id", TEXTOID, true},
    {"event_type", TEXTOID, true},
    {"partition_key", TEXTOID, false},
    {"payload", JSONBOID, false},
    {"payload_bytes", BYTEAOID, false},
    {"headers", JSONBOID, false},
};

EventLayout layouts[kRingSlots];
uint64 changes = 0;

void
forget(Datum, Oid relation)
{
    for (EventLayout &layout : layouts)
        if (!OidIsValid(relation) || layout.table == relation)
        {
            layout.table = InvalidOid;
            changes++;
        }
}

void
watch()
{
    static bool watching = false;
    if (watching)
        return;
    CacheRegisterRelcacheCallback(forget, static_cast<Datum>(0));
    watching = true;
}

int
slot_of(Relation table)
{
    for (int slot = 0; slot < kRingSlots; slot++)
        if (events_table(slot) == RelationGetRelid(table))
            return slot;
    ereport(ERROR, (errcode(ERRCODE_UNDEFINED_TABLE),
                    errmsg("table \"%s\" is not a partition of outbox.events",
                           RelationGetRelationName(table))));
}

[[noreturn]] void
refuse_column(Relation table, const char *problem, const char *column)
{
    ereport(
        ERROR,
        (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
         errmsg("column \"%s\" of outbox.%s %s", column, RelationGetRelationName(table), problem),
         errdetail("Events are written and read by the columns that the extension made."),
         errhint("Undo what was done to the table, or run ALTER EXTENSION outbox UPDATE "
                 "after an update of the package.")));
    pg_unreachable();
}

// The number of the column of that name among ours, or -1.
int
expected_number(const Form_pg_attribute attribute)
{
    for (int i = 0; i < kEventColumns; i++)
        if (strcmp(NameStr(attribute->attname), kExpected[i].name) == 0)
            return i;
    return -1;
}

// Whether nothing was added to the column.
bool
read_column(Relation table, const Form_pg_attribute attribute, EventLayout *layout)
{
    const int number = expected_number(attribute);
    if (number < 0)
        return false;
    const Expected &expected = kExpected[number];
    if (attribute->atttypid != expected.type)
        refuse_column(table, "has another type", expected.name);
    if (attribute->attgenerated != '\0')
        refuse_column(table, "is generated", expected.name);
    layout->place[number] = attribute->attnum;
    return !attribute->attnotnull || expected.not_null;
}

bool
is_our_trigger(const Trigger &trigger)
{
    const char *name = get_func_name(trigger.tgfoid);
    return name != nullptr && strcmp(name, "before_event_insert") == 0 &&
           is_own(ProcedureRelationId, trigger.tgfoid);
}

// Goes by a copy: a look into the catalogue hears of changes, also of others' ANALYZE, and makes
// what the relation has of its triggers anew.
bool
has_other_triggers(Relation table)
{
    TriggerDesc *triggers = CopyTriggerDesc(table->trigdesc);
    bool found = false;
    for (int i = 0; triggers != nullptr && i < triggers->numtriggers && !found; i++)
    {
        const Trigger &trigger = triggers->triggers[i];
        found = TRIGGER_FOR_INSERT(trigger.tgtype) && trigger.tgenabled != TRIGGER_DISABLED &&
                !is_our_trigger(trigger);
    }
    FreeTriggerDesc(triggers);
    return found;
}

void
read_layout(Relation table, EventLayout *layout)
{
    memset(layout, 0, sizeof(*layout));
    layout->slot = slot_of(table);
    layout->plain = true;
    const TupleDesc desc = RelationGetDescr(table);
    for (int i = 0; i < desc->natts; i++)
    {
        const Form_pg_attribute attribute = TupleDescAttr(desc, i);
        if (!attribute->attisdropped && !read_column(table, attribute, layout))
            layout->plain = false;
    }
    for (int i = 0; i < kEventColumns; i++)
        if (layout->place[i] == InvalidAttrNumber)
            refuse_column(table, "does not exist", kExpected[i].name);
    if (desc->constr != nullptr && desc->constr->num_check > 0)
        layout->plain = false;
    if (has_other_triggers(table))
        layout->plain = false;
}

} // namespace

const EventLayout &
event_layout(Relation partition)
{
    const Oid table = RelationGetRelid(partition);
    for (const EventLayout &layout : layouts)
        if (layout.table == table)
            return layout;
    watch();
    // The table is locked: it stays as it is, except for what this session does to it.
    EventLayout fresh;
    read_layout(partition, &fresh);
    EventLayout &kept = layouts[fresh.slot];
    kept = fresh;
    kept.table = table;
    return kept;
}

uint64
layout_changes()
{
    return changes;
}

void
require_usable(Relation partition)
{
    if (!partition->rd_rel->relispartition)
        ereport(
            ERROR,
            (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
             errmsg("outbox.%s is detached from outbox.events", RelationGetRelationName(partition)),
             errdetail("New events go to it, and outbox.events would not show them."),
             errhint("Attach it again: alter table outbox.events attach partition outbox.%s "
                     "for values in (%d).",
                     RelationGetRelationName(partition), event_layout(partition).slot)));
    if (partition->rd_rel->relpersistence != RELPERSISTENCE_PERMANENT)
        ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                        errmsg("outbox.%s is unlogged", RelationGetRelationName(partition)),
                        errdetail("Events in it would be lost in a crash."),
                        errhint("Run alter table outbox.%s set logged.",
                                RelationGetRelationName(partition))));
}

} // namespace outbox
