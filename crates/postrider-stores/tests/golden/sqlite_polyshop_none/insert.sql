INSERT INTO "outbox_events" ("id", "event_type", "aggregate_id", "version", "payload", "metadata", "created_at")
VALUES ($1, $2, $3, $4, $5, $6, max($30, (SELECT coalesce(max(p."created_at"), 0) + 1 FROM "outbox_events" AS p WHERE p."processed" = false)))
ON CONFLICT DO NOTHING RETURNING CAST("id" AS TEXT)
