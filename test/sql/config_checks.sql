-- Settings: shown in pg_settings, and refused with a reason when they would break a promise.
\set SHOW_CONTEXT never
select name, setting, unit, context, vartype, min_val, max_val from pg_settings where name like 'outbox.%' order by name;
set outbox.bootstrap_servers = 'one:9092,two:9093';
set outbox.bootstrap_servers = 'one:99999';
set outbox.bootstrap_servers = 'one two';
reset outbox.bootstrap_servers;
set outbox.topic_template = 'events.{aggregate_type}.{event_type}';
set outbox.topic_template = 'events';
set outbox.topic_template = '{nonsense}';
set outbox.topic_template = 'events.{aggregate_type';
set outbox.topic_template = 'my events';
set outbox.topic_template = '';
reset outbox.topic_template;
set outbox.kafka_config = 'linger.ms=5 compression.type=lz4 client.rack=''my rack''';
set outbox.kafka_config = 'linger.ms';
set outbox.kafka_config = 'sasl.password=''secret';
set outbox.kafka_config = 'acks=0';
set outbox.kafka_config = 'acks=all';
set outbox.kafka_config = 'enable.idempotence=false';
set outbox.kafka_config = 'transactional.id=mine';
set outbox.kafka_config = 'bootstrap.servers=elsewhere:9092';
set outbox.kafka_config = 'partitioner=random';
set outbox.kafka_config = 'message.timeout.ms=1000';
set outbox.kafka_config = 'sasl.password=secret acks=1';
reset outbox.kafka_config;
-- versions word the range differently
\set VERBOSITY sqlstate
set outbox.backoff_initial = '1ms';
set outbox.backoff_max = '2h';
set outbox.max_in_flight = 0;
set outbox.max_event_size = '1GB';
\set VERBOSITY default
-- names that nobody has defined are refused since version 15
do $$
begin
  set outbox.no_such_setting = 1;
  raise notice 'wrongly taken: %', (current_setting('server_version_num')::int >= 150000)::text;
exception when invalid_name then
  raise notice 'wrongly taken: false';
end $$;
set outbox.serialize_keys = maybe;

set outbox.webhook_deny_networks = '10.0.0.0/8, ::1,127.0.0.1';
set outbox.webhook_deny_networks = '10.0.0.0/33';
set outbox.webhook_deny_networks = 'localhost';
set outbox.webhook_deny_networks = '';
