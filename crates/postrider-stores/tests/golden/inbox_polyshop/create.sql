CREATE TABLE IF NOT EXISTS "processed_events" (
  "event_id" uuid NOT NULL,
  "processed_at" timestamptz NOT NULL DEFAULT now(),
  "event_type" text,
  "source" text,
  PRIMARY KEY ("event_id")
);
CREATE INDEX IF NOT EXISTS "processed_events_age_idx" ON "processed_events" ("processed_at")
