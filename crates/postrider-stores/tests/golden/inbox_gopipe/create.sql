CREATE TABLE IF NOT EXISTS "processed_messages" (
  "subscriber" text NOT NULL,
  "message_id" text NOT NULL,
  "created_at" timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY ("subscriber", "message_id")
);
CREATE INDEX IF NOT EXISTS "processed_messages_age_idx" ON "processed_messages" ("created_at")
