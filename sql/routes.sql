-- Routes: what becomes of events of certain types, other than the settings say.

create table outbox.routes (
  aggregate_type text collate "C" not null default '*',
  event_type text collate "C" not null default '*',
  topic text,
  on_failure text,
  headers_format text,
  constraint routes_pkey primary key (aggregate_type, event_type)
);
comment on table outbox.routes is
  'Topic, on_failure and headers of events by their types. Written by operators; checked when written, and taken up by the relay when the transaction commits. The most specific row counts: both types, then aggregate_type, then event_type, then neither.';
comment on column outbox.routes.aggregate_type is 'Of the events; * (or null, when written): any.';
comment on column outbox.routes.event_type is 'Of the events; * (or null, when written): any.';
comment on column outbox.routes.topic is 'Kafka topic; {aggregate_type} and {event_type} are replaced. Null: as outbox.topic_template says.';
comment on column outbox.routes.on_failure is 'block or skip. Null: as outbox.on_failure says.';
comment on column outbox.routes.headers_format is 'debezium, cloudevents or both. Null: as outbox.headers_format says.';
select pg_catalog.pg_extension_config_dump('outbox.routes', '');

create function outbox.on_route_change()
returns trigger
language c
as 'MODULE_PATHNAME', 'outbox_on_route_change';
comment on function outbox.on_route_change() is
  'Trigger: checks what is written into outbox.routes and notifies the relay and all sessions when it commits.';

create trigger before_change before insert or update or delete on outbox.routes
  for each row execute function outbox.on_route_change();
create trigger after_change after insert or update or truncate on outbox.routes
  for each statement execute function outbox.on_route_change();
-- Also in sessions with session_replication_role = replica: no session would notice the change.
alter table outbox.routes enable always trigger before_change;
alter table outbox.routes enable always trigger after_change;

create function outbox.route_of(
  aggregate_type text,
  event_type text,
  out route_aggregate_type text,
  out route_event_type text,
  out topic text,
  out on_failure text,
  out headers_format text)
returns record
language c volatile strict parallel unsafe
as 'MODULE_PATHNAME', 'outbox_route_of';
comment on function outbox.route_of(text, text) is
  'What becomes of events of these types: the row of outbox.routes that counts (nulls: none does) and the topic, on_failure and headers that follow from it and the settings.';
