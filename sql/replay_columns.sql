-- Upgrades run this file too.
comment on table outbox.replay_requests is
  'Replays and dry runs that were asked for; the last thousand of each subscription that have ended stay. Written by outbox.replay(), outbox.cancel_replay() and the relay; see the view outbox.replays.';
comment on column outbox.replay_requests.subscription is 'The subscription whose relay sends them.';
