-- Upgrades run this file too.
comment on column outbox.backpressure.backlog_events is 'Committed events that are not published; those in outbox.deliveries do not count. What commits while the relay takes a snapshot counts twice until it takes the next one.';
