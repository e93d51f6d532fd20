-- What each subscription has for itself.
comment on column outbox.relay_position.subscription is 'The subscription whose position it is.';
comment on column outbox.deliveries.subscription is 'The subscription that has set the event aside.';
comment on column outbox.restored_deliveries.subscription is 'The subscription that has set the event aside.';
comment on column outbox.pauses.subscription is 'The subscription that is paused.';
comment on column outbox.pauses.gone is 'What the destination said when it asked never to be called again; null: it did not.';

-- Dumps of versions before 0.3 do not have the column.
alter table outbox.restored_deliveries alter subscription set default 'default';
