// outbox.record_offset() and stored_offsets(): how far a consumer has come, kept with its effects.
// Both run as the owner.

#include "extension/core/topic_template.h"
#include "extension/server/arguments.h"
#include "extension/server/text_view.h"
#include "extension/trust/kept_statement.h"
#include "extension/trust/own_relations.h"

namespace outbox
{

namespace
{

const Oid kOffsetTypes[] = {TEXTOID, TEXTOID, INT4OID, INT8OID};

KeptStatement upsert = {
    "insert into outbox.consumer_offsets as stored (consumer, topic, kafka_partition, next_offset) "
    "values ($1, $2, $3, $4) on conflict (consumer, topic, kafka_partition) do update "
    "set next_offset = excluded.next_offset, recorded_at = excluded.recorded_at "
    "where stored.next_offset < excluded.next_offset",
    "store an offset in outbox.consumer_offsets", 4, kOffsetTypes, nullptr};

KeptStatement select_offsets = {
    "select topic, kafka_partition, next_offset from outbox.consumer_offsets "
    "where consumer = $1 order by topic, kafka_partition",
    "read outbox.consumer_offsets", 1, kOffsetTypes, nullptr};

text *
checked_topic(FunctionCallInfo fcinfo, int n)
{
    check_not_null(fcinfo, n, "topic", "Pass the Kafka record's topic.");
    text *topic = PG_GETARG_TEXT_PP(n);
    const char *problem = check_topic_name(text_view(topic));
    if (problem != nullptr)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("topic %s", problem),
                        errhint("%s", kTopicNameRule)));
    return topic;
}

void
check_not_negative(int64 value, const char *name)
{
    if (value < 0)
        ereport(ERROR, (errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
                        errmsg("%s must not be negative", name),
                        errdetail("It is " INT64_FORMAT ".", value),
                        errhint("Pass the record's partition, and its offset plus one.")));
}

} // namespace

} // namespace outbox

extern "C"
{
    OUTBOX_FUNCTION(outbox_record_offset);
    OUTBOX_FUNCTION(outbox_stored_offsets);

    Datum outbox_record_offset(PG_FUNCTION_ARGS)
    {
        text *consumer = outbox::checked_consumer(fcinfo, 0);
        text *topic = outbox::checked_topic(fcinfo, 1);
        outbox::check_not_null(fcinfo, 2, "kafka_partition", "Pass the Kafka record's partition.");
        outbox::check_not_null(fcinfo, 3, "next_offset",
                               "Pass the Kafka record's offset plus one.");
        outbox::check_not_negative(PG_GETARG_INT32(2), "kafka_partition");
        outbox::check_not_negative(PG_GETARG_INT64(3), "next_offset");
        Datum values[] = {PointerGetDatum(consumer), PointerGetDatum(topic), PG_GETARG_DATUM(2),
                          PG_GETARG_DATUM(3)};
        outbox::refuse_unlogged("consumer_offsets", "A crash would empty it, and consumers would "
                                                    "begin again.");
        outbox::connect_spi();
        const bool stored =
            outbox::run_statement(&outbox::upsert, values, nullptr, SPI_OK_INSERT) == 1;
        outbox::finish_spi();
        PG_RETURN_BOOL(stored);
    }

    Datum outbox_stored_offsets(PG_FUNCTION_ARGS)
    {
        Datum values[] = {PointerGetDatum(outbox::checked_consumer(fcinfo, 0))};
        outbox::begin_returned_rows(fcinfo, false);
        outbox::connect_spi();
        (void) outbox::run_statement(&outbox::select_offsets, values, nullptr, SPI_OK_SELECT, true);
        outbox::return_rows(fcinfo);
        outbox::finish_spi();
        return static_cast<Datum>(0);
    }
}
