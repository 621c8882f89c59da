-- The table, indexes and trigger of outbox-postgres's README.
CREATE TYPE status AS ENUM ('Pending', 'Processing', 'Sent');

CREATE TABLE outbox_events (
    id                uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    idempotency_token text DEFAULT NULL,
    event_type        text NOT NULL,
    payload           jsonb NOT NULL,
    status            status NOT NULL DEFAULT 'Pending',
    created_at        timestamptz NOT NULL DEFAULT now(),
    locked_until      timestamptz NOT NULL DEFAULT '-infinity'
);
CREATE INDEX idx_outbox_processing_queue ON outbox_events (locked_until ASC, status)
    WHERE status IN ('Pending', 'Processing');
CREATE UNIQUE INDEX idx_outbox_idempotency ON outbox_events (idempotency_token);

CREATE OR REPLACE FUNCTION notify_outbox_event() RETURNS trigger AS
$$
BEGIN
    PERFORM pg_notify('outbox_event', 'ping');
    RETURN new;
END;
$$ LANGUAGE plpgsql;

CREATE TRIGGER outbox_events_notify_trigger
    AFTER INSERT OR UPDATE ON outbox_events
    FOR EACH ROW EXECUTE FUNCTION notify_outbox_event();
