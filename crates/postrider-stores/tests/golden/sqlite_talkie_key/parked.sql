WITH held AS (
SELECT o."id" AS id, o."key" AS key, o."created_at" AS s0, o."id" AS s1, row_number() OVER (PARTITION BY o."key" ORDER BY o."created_at", o."id") AS place
FROM "outbox" AS o
WHERE o."key" IS NOT NULL AND ((o."published_at" IS NULL AND o."status" = 'dead_lettered') OR (o."published_at" IS NULL AND o."status" IN ('pending', 'failed', 'publishing') AND (o."status" = 'failed' AND o."retry_count" > 0)))),
head AS MATERIALIZED (
SELECT * FROM held WHERE place = 1 ORDER BY s0, s1 LIMIT $1),
behind AS (
SELECT head.id AS id, count(*) AS records
FROM head JOIN "outbox" AS o ON o."key" = head.key
WHERE o."published_at" IS NULL AND o."status" IN ('pending', 'failed', 'publishing') AND (o."created_at", o."id") > (head.s0, head.s1) GROUP BY head.id)
SELECT CAST(o."id" AS TEXT), CAST(o."id" AS TEXT), CAST(NULL AS TEXT), CAST(NULL AS TEXT), CAST(NULL AS TEXT), CAST(NULL AS TEXT), CAST(o."key" AS TEXT), CAST(o."topic" AS TEXT), CASE WHEN (o."published_at" IS NULL AND o."status" = 'dead_lettered') THEN 'dead' WHEN (o."status" = 'published') THEN 'published' WHEN (o."published_at" IS NULL AND o."status" IN ('pending', 'failed', 'publishing') AND (o."status" = 'failed' AND o."retry_count" > 0)) THEN 'waiting' ELSE 'pending' END, CAST(o."retry_count" AS INTEGER), CAST(o."last_error" AS TEXT), o."created_at", CASE WHEN (o."status" = 'published') THEN o."published_at" END, CASE WHEN (o."published_at" IS NULL AND o."status" IN ('pending', 'failed', 'publishing') AND (o."status" = 'failed' AND o."retry_count" > 0)) THEN o."next_attempt_at" END, CAST(octet_length(CAST(o."payload_json" AS TEXT)) AS INTEGER), CAST(o."created_at" AS TEXT), CAST(o."id" AS TEXT), coalesce(behind.records, 0)
FROM head JOIN "outbox" AS o ON o."id" = head.id LEFT JOIN behind ON behind.id = head.id
ORDER BY o."created_at", o."id"
