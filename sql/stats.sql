-- What the relay has counted, and backpressure: all of it from shared memory.

create function outbox.topic_stats(
  out topic text,
  out published bigint,
  out bytes bigint,
  out refused bigint,
  out failed bigint,
  out retried bigint,
  out batches bigint,
  out batch_events_p50 bigint,
  out batch_events_p95 bigint,
  out batch_events_p99 bigint,
  out batch_events_max bigint,
  out created_to_acked_ms_p50 double precision,
  out created_to_acked_ms_p95 double precision,
  out created_to_acked_ms_p99 double precision,
  out created_to_acked_ms_max double precision,
  out created_to_acked_ms_sum double precision,
  out sent_to_acked_ms_p50 double precision,
  out sent_to_acked_ms_p95 double precision,
  out sent_to_acked_ms_p99 double precision,
  out sent_to_acked_ms_max double precision,
  out sent_to_acked_ms_sum double precision,
  out last_published_at timestamptz,
  out stats_reset timestamptz)
returns setof record
language c volatile parallel restricted rows 10
as 'MODULE_PATHNAME', 'outbox_topic_stats';
comment on function outbox.topic_stats() is
  'What this database''s relay has counted, by topic. Use the view outbox.stats.';

create function outbox.database_stats(
  out topics int,
  out published bigint,
  out bytes bigint,
  out refused bigint,
  out failed bigint,
  out retried bigint,
  out batches bigint,
  out batch_events_p50 bigint,
  out batch_events_p95 bigint,
  out batch_events_p99 bigint,
  out batch_events_max bigint,
  out created_to_acked_ms_p50 double precision,
  out created_to_acked_ms_p95 double precision,
  out created_to_acked_ms_p99 double precision,
  out created_to_acked_ms_max double precision,
  out created_to_acked_ms_sum double precision,
  out sent_to_acked_ms_p50 double precision,
  out sent_to_acked_ms_p95 double precision,
  out sent_to_acked_ms_p99 double precision,
  out sent_to_acked_ms_max double precision,
  out sent_to_acked_ms_sum double precision,
  out last_published_at timestamptz,
  out stats_reset timestamptz)
returns record
language c volatile parallel restricted
as 'MODULE_PATHNAME', 'outbox_database_stats';
comment on function outbox.database_stats() is
  'What this database''s relay has counted, all topics together. Use the view outbox.stats_total.';

create function outbox.latency_histograms(
  out measure text,
  out le_seconds double precision,
  out events bigint)
returns setof record
language c volatile parallel restricted rows 60
as 'MODULE_PATHNAME', 'outbox_latency_histograms';
comment on function outbox.latency_histograms() is
  'Cumulative histograms of the latencies of all topics. Use the view outbox.stats_histogram.';

create function outbox.stats_reset()
returns void
language c volatile parallel unsafe
as 'MODULE_PATHNAME', 'outbox_stats_reset';
comment on function outbox.stats_reset() is
  'Sets all statistics of this database (outbox.stats, stats_total, stats_histogram) to zero, at once and not only at commit.';

create view outbox.stats as
select
  s.topic, s.published, s.bytes, s.refused, s.failed, s.retried, s.batches,
  s.batch_events_p50, s.batch_events_p95, s.batch_events_p99, s.batch_events_max,
  s.created_to_acked_ms_p50, s.created_to_acked_ms_p95, s.created_to_acked_ms_p99, s.created_to_acked_ms_max, s.created_to_acked_ms_sum,
  s.sent_to_acked_ms_p50, s.sent_to_acked_ms_p95, s.sent_to_acked_ms_p99, s.sent_to_acked_ms_max, s.sent_to_acked_ms_sum,
  s.last_published_at, s.stats_reset
from outbox.topic_stats() s;
comment on view outbox.stats is
  'A row for each Kafka topic: what the relay has published since stats_reset, and how fast. 64 topics; all others are in the row (other topics).';
comment on column outbox.stats.topic is 'Kafka topic; (other topics) are all beyond the first 64, ? are events whose topic name cannot be made.';

create view outbox.stats_total as
select
  s.topics, s.published, s.bytes, s.refused, s.failed, s.retried, s.batches,
  s.batch_events_p50, s.batch_events_p95, s.batch_events_p99, s.batch_events_max,
  s.created_to_acked_ms_p50, s.created_to_acked_ms_p95, s.created_to_acked_ms_p99, s.created_to_acked_ms_max, s.created_to_acked_ms_sum,
  s.sent_to_acked_ms_p50, s.sent_to_acked_ms_p95, s.sent_to_acked_ms_p99, s.sent_to_acked_ms_max, s.sent_to_acked_ms_sum,
  s.last_published_at, s.stats_reset
from outbox.database_stats() s;
comment on view outbox.stats_total is
  'One row: outbox.stats with all topics together.';
comment on column outbox.stats_total.topics is 'Rows of outbox.stats.';

create view outbox.stats_histogram as
select h.measure, h.le_seconds, h.events
from outbox.latency_histograms() h;
comment on view outbox.stats_histogram is
  'How many events took less than le_seconds, cumulative, for the measures created_to_acked and sent_to_acked of all topics together.';
comment on column outbox.stats_histogram.measure is 'created_to_acked or sent_to_acked, as in outbox.stats_total.';
comment on column outbox.stats_histogram.le_seconds is 'Upper bound: powers of two of a microsecond from 128 us to 9.5 hours, then Infinity.';
comment on column outbox.stats_histogram.events is 'Events that took less.';

do $$
declare
  stats text;
  name text;
  meaning text;
begin
  foreach stats in array array['outbox.stats', 'outbox.stats_total'] loop
    for name, meaning in values
      ('published', 'Events that Kafka has acknowledged; repeats count again.'),
      ('bytes', 'Of those: keys, values and headers, before compression.'),
      ('refused', 'How often Kafka refused an event, for its own or for its topic''s sake.'),
      ('failed', 'Events given up after outbox.max_attempts.'),
      ('retried', 'How often an event was handed to Kafka again: after a refusal, or because the producer had to start over.'),
      ('batches', 'Batches that Kafka has acknowledged.'),
      ('batch_events_p50', 'Events in a batch: the median.'),
      ('batch_events_p95', 'Likewise, not exceeded by 95 % of the batches.'),
      ('batch_events_p99', 'Likewise, by 99 %.'),
      ('batch_events_max', 'The largest batch.'),
      ('created_to_acked_ms_p50', 'From the event''s created_at to Kafka''s acknowledgement, in ms: the median.'),
      ('created_to_acked_ms_p95', 'Likewise, not exceeded by 95 % of the events.'),
      ('created_to_acked_ms_p99', 'Likewise, by 99 %.'),
      ('created_to_acked_ms_max', 'The longest.'),
      ('created_to_acked_ms_sum', 'Of all published events together.'),
      ('sent_to_acked_ms_p50', 'From handing the event to the Kafka client to the acknowledgement, in ms: the median.'),
      ('sent_to_acked_ms_p95', 'Likewise, not exceeded by 95 % of the events.'),
      ('sent_to_acked_ms_p99', 'Likewise, by 99 %.'),
      ('sent_to_acked_ms_max', 'The longest.'),
      ('sent_to_acked_ms_sum', 'Of all published events together.'),
      ('last_published_at', 'When Kafka has acknowledged the last one.'),
      ('stats_reset', 'Since when this is counted.')
    loop
      execute pg_catalog.format('comment on column %s.%I is %L', stats, name, meaning);
    end loop;
  end loop;
end
$$;

create function outbox.backlog_state(
  out max_backlog_events int,
  out warn_at bigint,
  out backlog_events bigint,
  out counted boolean,
  out level text)
returns record
language c volatile parallel restricted
as 'MODULE_PATHNAME', 'outbox_backlog_state';
comment on function outbox.backlog_state() is
  'How near this database is to outbox.max_backlog_events. Use the view outbox.backpressure.';

create view outbox.backpressure as
select b.max_backlog_events, b.warn_at, b.backlog_events, b.counted, b.level
from outbox.backlog_state() b;
comment on view outbox.backpressure is
  'One row: how many committed events wait to be published, and whether that makes emit() warn or refuse.';
comment on column outbox.backpressure.max_backlog_events is 'The setting outbox.max_backlog_events, as this session has it; 0: no limit.';
comment on column outbox.backpressure.warn_at is 'From how many on emit() warns.';
comment on column outbox.backpressure.backlog_events is 'Committed events that are not published; those in outbox.deliveries do not count.';
comment on column outbox.backpressure.counted is 'False until a relay has counted what there was when the server started; backlog_events is a lower bound till then.';
comment on column outbox.backpressure.level is 'off, ok, warning or refusing.';
