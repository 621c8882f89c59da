-- What the examples' consumer writes to, beside its inbox and its outbox. The lock is for consumers that start together.
SELECT pg_advisory_xact_lock(4711);
CREATE TABLE IF NOT EXISTS effects (
    serial   bigserial PRIMARY KEY,
    event_id text NOT NULL,
    customer text NOT NULL,
    number   int8 NOT NULL,
    process  int8 NOT NULL
);
CREATE TABLE IF NOT EXISTS duplicates (
    event_id text NOT NULL
);
