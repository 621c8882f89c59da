-- The tables that `postrider init` creates for the layout polyshop.
CREATE TABLE outbox_events (
  id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
  aggregate_id text NOT NULL,
  event_type text NOT NULL,
  version integer NOT NULL DEFAULT 1,
  payload json NOT NULL,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  processed boolean NOT NULL DEFAULT false,
  processed_at timestamptz,
  error_message text,
  metadata jsonb
);
CREATE INDEX outbox_events_claim_idx ON outbox_events (created_at, id) WHERE processed = false;
CREATE TABLE processed_events (
  event_id uuid PRIMARY KEY,
  processed_at timestamptz NOT NULL DEFAULT now(),
  event_type text,
  source text
);
