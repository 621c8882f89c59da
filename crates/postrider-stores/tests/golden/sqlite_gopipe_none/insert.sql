INSERT INTO "outbox" ("event_type", "topic", "data", "attributes", "created_at")
VALUES ($1, $2, $3, $4, $30)
ON CONFLICT DO NOTHING RETURNING "attributes" ->> 'id'
