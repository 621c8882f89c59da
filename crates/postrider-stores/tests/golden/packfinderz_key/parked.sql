WITH held AS (
SELECT o."id" AS id, o."aggregate_id" AS key, o."created_at" AS s0, o."id" AS s1, row_number() OVER (PARTITION BY o."aggregate_id" ORDER BY o."created_at", o."id") AS place
FROM "outbox_events" AS o
WHERE o."aggregate_id" IS NOT NULL AND ((o."published_at" IS NULL AND o."attempt_count" > 0 AND o."attempt_count" >= 25) OR (o."published_at" IS NULL AND o."attempt_count" < 25 AND o."attempt_count" > 0))),
head AS MATERIALIZED (
SELECT * FROM held WHERE place = 1 ORDER BY s0, s1 LIMIT $1),
behind AS (
SELECT head.id AS id, count(*) AS records
FROM head JOIN "outbox_events" AS o ON o."aggregate_id" = head.key
WHERE o."published_at" IS NULL AND o."attempt_count" < 25 AND (o."created_at", o."id") > (head.s0, head.s1) GROUP BY head.id)
SELECT o."id"::text, o."id"::text, NULL::text, o."event_type"::text, o."aggregate_type"::text, o."aggregate_id"::text, o."aggregate_id"::text, NULL::text, CASE WHEN (o."published_at" IS NULL AND o."attempt_count" > 0 AND o."attempt_count" >= 25) THEN 'dead' WHEN (o."published_at" IS NOT NULL) THEN 'published' WHEN (o."published_at" IS NULL AND o."attempt_count" < 25 AND o."attempt_count" > 0) THEN 'waiting' ELSE 'pending' END, o."attempt_count"::int8, o."last_error"::text, o."created_at", CASE WHEN (o."published_at" IS NOT NULL) THEN o."published_at"::timestamptz END, NULL::timestamptz, octet_length(o."payload_json"::text)::int8, o."created_at"::text, o."id"::text, coalesce(behind.records, 0)
FROM head JOIN "outbox_events" AS o ON o."id" = head.id LEFT JOIN behind ON behind.id = head.id
ORDER BY o."created_at", o."id"
