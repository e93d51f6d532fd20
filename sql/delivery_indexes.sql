-- By subscription first: what one of them has set aside takes no time of another one.
create index deliveries_waiting on outbox.deliveries (subscription, lane, seq) where state = 'WAITING';
create index deliveries_blockers on outbox.deliveries (subscription, lane, seq) where state in ('RETRYING', 'FAILED');
create index deliveries_due on outbox.deliveries (subscription, next_attempt_at) where state = 'RETRYING';
