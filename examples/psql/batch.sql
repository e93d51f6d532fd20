-- Records of one partition, from kcat to their effects, in one transaction. consumer.sh runs it.
\set ON_ERROR_STOP on
\set QUIET on
begin;
create temporary table batch (line text) on commit drop;
-- Each byte as a character, as a record need not be UTF-8; and no character that JSON may hold has a meaning here.
\copy batch from pstdin (format csv, delimiter E'\x01', quote E'\x02', encoding 'LATIN1')

-- begin: consume
-- The first number of that name is the record's: payload and headers come later in the line.
create temporary view records as
select substring(line from '"offset":([0-9]+)')::bigint as kafka_offset, convert_to(line, 'LATIN1') as line from batch;

-- The offset is kept with the effects. False: another consumer has been here, or there is nothing: leave the rest out.
select coalesce((select outbox.record_offset(:'consumer', :'topic', :partition, max(kafka_offset) + 1)
                 from records having count(*) > 0), false) as ours \gset
\if :ours
    select bill(:'consumer', :'topic', :partition, kafka_offset, line) from records order by kafka_offset \g /dev/null
\endif
commit;
-- end: consume
