-- mark_processed(): true once for each consumer and event.
\set SHOW_CONTEXT never
\set event '\'00000000-0000-4000-8000-0000000000cc\''
select outbox.mark_processed(:event, 'billing');
select outbox.mark_processed(:event, 'billing');
select outbox.mark_processed(:event, 'shipping');
begin;
select outbox.mark_processed(:event, 'audit');
rollback;
select outbox.mark_processed(:event, 'audit');
select consumer, event_id from outbox.processed_events order by consumer;
select outbox.mark_processed(null, 'billing');
select outbox.mark_processed(:event, null);
select outbox.mark_processed(:event, '');
