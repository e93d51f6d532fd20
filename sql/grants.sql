-- Start closed: nothing for PUBLIC. Roles get what they need by explicit grants.
revoke all on all tables in schema outbox from public;
revoke all on all sequences in schema outbox from public;
revoke all on all functions in schema outbox from public;
