WITH page AS MATERIALIZED (
SELECT o."id" AS id FROM "outbox_events" AS o
WHERE true
ORDER BY o."created_at", o."id" LIMIT $1)
SELECT o."id" AS c0, o."event_type"::text AS c1, o."aggregate_type"::text AS c2, o."aggregate_id" AS c3, o."payload_json" AS c4, o."created_at" AS c5, o."attempt_count" AS c6, o."attempt_count"::int8, o."created_at"::text, o."id"::text
FROM page JOIN "outbox_events" AS o ON o."id" = page.id
ORDER BY o."created_at", o."id"
