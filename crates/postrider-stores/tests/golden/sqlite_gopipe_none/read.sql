WITH page AS MATERIALIZED (
SELECT o."id" AS id FROM "outbox" AS o
LEFT JOIN "postrider_troubles" AS t ON t.outbox = $1 AND o."id" = CAST(t.record_id AS INTEGER)
WHERE true
ORDER BY o."id" LIMIT $2)
SELECT o."id" AS c0, o."event_type" AS c1, o."topic" AS c2, o."data" AS c3, o."attributes" AS c4, o."created_at" AS c5, CAST(coalesce(t.attempts, 0) AS INTEGER), CAST(o."id" AS TEXT)
FROM page JOIN "outbox" AS o ON o."id" = page.id
LEFT JOIN "postrider_troubles" AS t ON t.outbox = $1 AND o."id" = CAST(t.record_id AS INTEGER)
ORDER BY o."id"
