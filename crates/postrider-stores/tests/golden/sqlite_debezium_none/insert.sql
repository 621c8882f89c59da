INSERT INTO "outbox" ("id", "type", "aggregatetype", "aggregateid", "payload", "created_at")
VALUES ($1, $2, $3, $4, $5, max($30, (SELECT coalesce(max(p."created_at"), 0) + 1 FROM "outbox" AS p WHERE true)))
ON CONFLICT DO NOTHING RETURNING CAST("id" AS TEXT)
