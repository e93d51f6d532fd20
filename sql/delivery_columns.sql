comment on column outbox.deliveries.emitted_at is 'When the event was emitted: its created_at, but not later than when it was set aside. Null in rows of before 0.2.1.';
