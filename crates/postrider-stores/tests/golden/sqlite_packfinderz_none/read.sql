WITH page AS MATERIALIZED (
SELECT o."id" AS id FROM "outbox_events" AS o
WHERE true
ORDER BY o."created_at", o."id" LIMIT $1)
SELECT o."id" AS c0, CAST(o."event_type" AS TEXT) AS c1, CAST(o."aggregate_type" AS TEXT) AS c2, o."aggregate_id" AS c3, o."payload_json" AS c4, o."created_at" AS c5, o."attempt_count" AS c6, CAST(o."attempt_count" AS INTEGER), CAST(o."created_at" AS TEXT), CAST(o."id" AS TEXT)
FROM page JOIN "outbox_events" AS o ON o."id" = page.id
ORDER BY o."created_at", o."id"
