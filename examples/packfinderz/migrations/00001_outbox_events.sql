-- The outbox, as PF-060 has locked it. The labels come from src/catalogue.rs (`migrate print` shows them). A new event
-- type needs a migration of its own too, for databases that have this one: ALTER TYPE … ADD VALUE IF NOT EXISTS.

-- +goose Up
-- +goose ENVSUB ON
CREATE TYPE event_type_enum AS ENUM (${EVENT_TYPES});
CREATE TYPE aggregate_type_enum AS ENUM (${AGGREGATE_TYPES});

CREATE TABLE outbox_events (
  id             uuid PRIMARY KEY,
  event_type     event_type_enum NOT NULL,
  aggregate_type aggregate_type_enum NOT NULL,
  aggregate_id   uuid NOT NULL,
  payload_json   jsonb NOT NULL,
  created_at     timestamptz NOT NULL DEFAULT now(),
  published_at   timestamptz,
  attempt_count  int NOT NULL DEFAULT 0,
  last_error     text
);

CREATE INDEX outbox_events_published_at_idx ON outbox_events (published_at);
CREATE INDEX outbox_events_event_type_idx ON outbox_events (event_type);
CREATE INDEX outbox_events_aggregate_type_aggregate_id_idx ON outbox_events (aggregate_type, aggregate_id);

-- +goose Down
LOCK TABLE outbox_events;
-- Every row is a promise, which a migration must not break.
DO $$ BEGIN
  IF EXISTS (SELECT FROM outbox_events WHERE published_at IS NULL) THEN
    RAISE EXCEPTION 'outbox_events holds events that are not published: publish or delete them first';
  END IF;
END $$;
DROP TABLE outbox_events;
DROP TYPE aggregate_type_enum;
DROP TYPE event_type_enum;
