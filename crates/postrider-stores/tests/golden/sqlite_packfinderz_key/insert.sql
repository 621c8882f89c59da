INSERT INTO "outbox_events" ("id", "event_type", "aggregate_type", "aggregate_id", "payload_json", "created_at")
VALUES ($1, $2, $3, $4, $5, max($30, (SELECT coalesce(max(p."created_at"), 0) + 1 FROM "outbox_events" AS p WHERE p."published_at" IS NULL)))
ON CONFLICT DO NOTHING RETURNING CAST("id" AS TEXT)
