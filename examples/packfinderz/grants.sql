-- What each program may do, and no more; `migrate` runs as the tables' owner. The roles are the operator's:
--   CREATE ROLE pf_api LOGIN PASSWORD '…';      and so on

-- The api writes licenses and their events, in one transaction.
GRANT SELECT, INSERT, UPDATE ON licenses TO pf_api;
GRANT INSERT, SELECT (id) ON outbox_events TO pf_api;
GRANT SELECT ON notifications TO pf_api;

-- The publisher: append-only but for three columns.
GRANT SELECT ON outbox_events TO pf_publisher;
GRANT UPDATE (published_at, attempt_count, last_error) ON outbox_events TO pf_publisher;

-- Consumers never touch the outbox.
GRANT SELECT, INSERT ON notifications TO pf_consumer;

-- The cleanup: what the publisher may, and to delete.
GRANT SELECT, DELETE ON outbox_events TO pf_cleanup;
GRANT UPDATE (published_at, attempt_count, last_error) ON outbox_events TO pf_cleanup;
