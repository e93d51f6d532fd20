-- outbox: from 0.1 to 0.2. A line "-- include x" stands for sql/x.sql; see "Change the schema" in CONTRIBUTING.md.
\echo Use "ALTER EXTENSION outbox UPDATE" to load this file. \quit

-- include library

-- What changes in objects that 0.1 has.

-- Objects that are new, in the order of SQL_PARTS in the Makefile.
-- include routes
-- include stats
-- include replay

-- Functions only, each "create or replace": what roles may be granted.
-- include grants
-- include closed

-- Last: the relay, which waited for this version, goes on when the update commits.
select outbox.request_relay();
