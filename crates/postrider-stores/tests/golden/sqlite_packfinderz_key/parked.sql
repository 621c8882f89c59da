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
SELECT CAST(o."id" AS TEXT), CAST(o."id" AS TEXT), CAST(NULL AS TEXT), CAST(o."event_type" AS TEXT), CAST(o."aggregate_type" AS TEXT), CAST(o."aggregate_id" AS TEXT), CAST(o."aggregate_id" AS TEXT), CAST(NULL AS TEXT), CASE WHEN (o."published_at" IS NULL AND o."attempt_count" > 0 AND o."attempt_count" >= 25) THEN 'dead' WHEN (o."published_at" IS NOT NULL) THEN 'published' WHEN (o."published_at" IS NULL AND o."attempt_count" < 25 AND o."attempt_count" > 0) THEN 'waiting' ELSE 'pending' END, CAST(o."attempt_count" AS INTEGER), CAST(o."last_error" AS TEXT), o."created_at", CASE WHEN (o."published_at" IS NOT NULL) THEN o."published_at" END, NULL, CAST(octet_length(CAST(o."payload_json" AS TEXT)) AS INTEGER), CAST(o."created_at" AS TEXT), CAST(o."id" AS TEXT), coalesce(behind.records, 0)
FROM head JOIN "outbox_events" AS o ON o."id" = head.id LEFT JOIN behind ON behind.id = head.id
ORDER BY o."created_at", o."id"
