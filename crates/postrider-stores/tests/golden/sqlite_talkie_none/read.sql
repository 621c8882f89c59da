WITH page AS MATERIALIZED (
SELECT o."id" AS id FROM "outbox" AS o
WHERE true
ORDER BY o."created_at", o."id" LIMIT $1)
SELECT o."id" AS c0, o."topic" AS c1, o."key" AS c2, o."idempotency_key" AS c3, o."payload_json" AS c4, o."created_at" AS c5, o."retry_count" AS c6, CAST(o."retry_count" AS INTEGER), CAST(o."created_at" AS TEXT), CAST(o."id" AS TEXT)
FROM page JOIN "outbox" AS o ON o."id" = page.id
ORDER BY o."created_at", o."id"
