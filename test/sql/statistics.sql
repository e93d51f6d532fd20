-- The statistics without a Kafka to publish to, and what of them can be said of any: see test/e2e/stats_test.cpp.
\set SHOW_CONTEXT never
-- the relay has taken its place in shared memory
do $$
begin
  for i in 1..200 loop
    exit when (select stats_reset from outbox.stats_total) is not null;
    perform pg_sleep(0.05);
  end loop;
end $$;
select outbox.emit('stats', '1', 'made', null) is not null as emitted;
select count(*) from outbox.stats;
select topics, published, bytes, refused, failed, retried, batches, batch_events_p50, batch_events_max,
  created_to_acked_ms_p50, created_to_acked_ms_max, created_to_acked_ms_sum, sent_to_acked_ms_p99, sent_to_acked_ms_sum,
  last_published_at, stats_reset <= clock_timestamp() as has_reset
from outbox.stats_total;
-- the same columns, but for the first
select count(*) from pg_attribute a join pg_attribute b using (attname, atttypid, attnum)
where a.attrelid = 'outbox.stats'::regclass and b.attrelid = 'outbox.stats_total'::regclass and a.attnum > 1;
select measure, count(*), min(le_seconds), max(le_seconds) filter (where le_seconds < 'infinity'), max(le_seconds), sum(events)
from outbox.stats_histogram group by measure order by measure;
select stats_reset as before from outbox.stats_total \gset
begin;
select outbox.stats_reset();
rollback;
-- at once, as with pg_stat_reset()
select stats_reset > :'before' as was_reset, published from outbox.stats_total;
