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
SELECT o."id"::text, o."id"::text, NULL::text, NULL::text, NULL::text, NULL::text, o."key"::text, o."topic"::text, CASE WHEN (o."published_at" IS NULL AND o."status" = 'dead_lettered') THEN 'dead' WHEN (o."status" = 'published') THEN 'published' WHEN (o."published_at" IS NULL AND o."status" IN ('pending', 'failed', 'publishing') AND (o."status" = 'failed' AND o."retry_count" > 0)) THEN 'waiting' ELSE 'pending' END, o."retry_count"::int8, o."last_error"::text, o."created_at", CASE WHEN (o."status" = 'published') THEN o."published_at"::timestamptz END, CASE WHEN (o."published_at" IS NULL AND o."status" IN ('pending', 'failed', 'publishing') AND (o."status" = 'failed' AND o."retry_count" > 0)) THEN o."next_attempt_at"::timestamptz END, octet_length(o."payload_json"::text)::int8, o."created_at"::text, o."id"::text, coalesce(behind.records, 0)
FROM head JOIN "outbox" AS o ON o."id" = head.id LEFT JOIN behind ON behind.id = head.id
ORDER BY o."created_at", o."id"
