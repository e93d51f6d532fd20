-- What the relays have counted, and backpressure: all of it from shared memory.

create function outbox.stats_reset()
returns void
language c volatile parallel unsafe
as 'MODULE_PATHNAME', 'outbox_stats_reset';
-- include stats_views

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
-- include backpressure_columns
comment on column outbox.backpressure.counted is 'False until a relay has counted what there was when the server started; backlog_events is a lower bound till then.';
comment on column outbox.backpressure.level is 'off, ok, warning or refusing.';
