CREATE TABLE IF NOT EXISTS "a ""b"""."c; --" (
  "who ""is"" it" text NOT NULL,
  "event_id" uuid NOT NULL,
  "processed_at" timestamptz NOT NULL DEFAULT now(),
  "event_type" text,
  "source" text,
  PRIMARY KEY ("who ""is"" it", "event_id")
);
CREATE INDEX IF NOT EXISTS "c; --_age_idx" ON "a ""b"""."c; --" ("processed_at")
