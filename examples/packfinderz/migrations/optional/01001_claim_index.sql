-- The index that claims want once many thousands of rows wait. It is not part of the locked schema, so `migrate up` leaves
-- it out and `migrate claim-index` applies it. Writers wait while it is built; on a busy table build it by hand first,
-- CONCURRENTLY and under this name.

-- +goose Up
CREATE INDEX IF NOT EXISTS outbox_events_claim_idx ON outbox_events (created_at, id) WHERE published_at IS NULL;

-- +goose Down
DROP INDEX outbox_events_claim_idx;
