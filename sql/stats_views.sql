-- Upgrades run this file too.

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
  out stats_reset timestamptz,
  out subscription text)
returns setof record
language c volatile parallel restricted rows 10
as 'MODULE_PATHNAME', 'outbox_topic_stats';
comment on function outbox.topic_stats() is
  'What this database''s relays have counted, by topic. Use the view outbox.stats.';

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
  out stats_reset timestamptz,
  out subscription text)
returns setof record
language c volatile parallel restricted rows 1
as 'MODULE_PATHNAME', 'outbox_subscription_stats';
comment on function outbox.database_stats() is
  'What this database''s relays have counted, each all topics together. Use the view outbox.stats_total.';

create function outbox.latency_histograms(
  out measure text,
  out le_seconds double precision,
  out events bigint,
  out subscription text)
returns setof record
language c volatile parallel restricted rows 60
as 'MODULE_PATHNAME', 'outbox_latency_histograms';
comment on function outbox.latency_histograms() is
  'Cumulative histograms of the latencies of all topics, for each relay of this database. Use the view outbox.stats_histogram.';

create or replace function outbox.stats_reset(subscription text)
returns void
language c volatile strict parallel unsafe
as 'MODULE_PATHNAME', 'outbox_stats_reset_one';
comment on function outbox.stats_reset(text) is
  'Sets the statistics of this subscription to zero, at once and not only at commit.';

create or replace view outbox.stats as
select
  s.topic, s.published, s.bytes, s.refused, s.failed, s.retried, s.batches,
  s.batch_events_p50, s.batch_events_p95, s.batch_events_p99, s.batch_events_max,
  s.created_to_acked_ms_p50, s.created_to_acked_ms_p95, s.created_to_acked_ms_p99, s.created_to_acked_ms_max, s.created_to_acked_ms_sum,
  s.sent_to_acked_ms_p50, s.sent_to_acked_ms_p95, s.sent_to_acked_ms_p99, s.sent_to_acked_ms_max, s.sent_to_acked_ms_sum,
  s.last_published_at, s.stats_reset, s.subscription
from outbox.topic_stats() s;
comment on view outbox.stats is
  'A row for each subscription and topic: what its relay has published since stats_reset, and how fast. 64 topics; all others are in the row (other topics).';
comment on column outbox.stats.topic is 'Kafka topic; (other topics) are all beyond the first 64, ? are events whose topic name cannot be made.';

create or replace view outbox.stats_total as
select
  s.topics, s.published, s.bytes, s.refused, s.failed, s.retried, s.batches,
  s.batch_events_p50, s.batch_events_p95, s.batch_events_p99, s.batch_events_max,
  s.created_to_acked_ms_p50, s.created_to_acked_ms_p95, s.created_to_acked_ms_p99, s.created_to_acked_ms_max, s.created_to_acked_ms_sum,
  s.sent_to_acked_ms_p50, s.sent_to_acked_ms_p95, s.sent_to_acked_ms_p99, s.sent_to_acked_ms_max, s.sent_to_acked_ms_sum,
  s.last_published_at, s.stats_reset, s.subscription
from outbox.database_stats() s;
comment on view outbox.stats_total is
  'One row for each subscription: outbox.stats with all topics together.';
comment on column outbox.stats_total.topics is 'Rows of outbox.stats.';

create or replace view outbox.stats_histogram as
select h.measure, h.le_seconds, h.events, h.subscription
from outbox.latency_histograms() h;
comment on view outbox.stats_histogram is
  'How many events took less than le_seconds, cumulative, for the measures created_to_acked and sent_to_acked of all topics of a subscription together.';
comment on column outbox.stats_histogram.measure is 'created_to_acked or sent_to_acked, as in outbox.stats_total.';
comment on column outbox.stats_histogram.le_seconds is 'Upper bound: powers of two of a microsecond from 128 us to 9.5 hours, then Infinity.';
comment on column outbox.stats_histogram.events is 'Events that took less.';
comment on column outbox.stats_histogram.subscription is 'The subscription whose relay has counted.';

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
      ('stats_reset', 'Since when this is counted.'),
      ('subscription', 'The subscription whose relay has counted.')
    loop
      execute pg_catalog.format('comment on column %s.%I is %L', stats, name, meaning);
    end loop;
  end loop;
end
$$;

comment on function outbox.stats_reset() is
  'Sets all statistics of this database (outbox.stats, stats_total, stats_histogram), of all subscriptions, to zero, at once and not only at commit.';
