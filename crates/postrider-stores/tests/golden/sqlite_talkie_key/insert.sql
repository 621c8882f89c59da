INSERT INTO "outbox" ("id", "topic", "key", "idempotency_key", "payload_json", "created_at")
VALUES ($1, $2, $3, $4, $5, max($30, (SELECT coalesce(max(p."created_at"), 0) + 1 FROM "outbox" AS p WHERE p."published_at" IS NULL AND p."status" IN ('pending', 'failed', 'publishing'))))
ON CONFLICT DO NOTHING RETURNING CAST("id" AS TEXT)
