WITH held AS (
SELECT o."id" AS id, o."aggregateid" AS key, o."created_at" AS s0, o."id" AS s1, row_number() OVER (PARTITION BY o."aggregateid" ORDER BY o."created_at", o."id") AS place
FROM "outbox" AS o
LEFT JOIN "postrider_troubles" AS t ON t.outbox = $1 AND o."id" = t.record_id
WHERE o."aggregateid" IS NOT NULL AND ((t.dead) OR (true AND t.dead IS NOT TRUE AND coalesce(t.attempts, 0) > 0))),
head AS MATERIALIZED (
SELECT * FROM held WHERE place = 1 ORDER BY s0, s1 LIMIT $2),
behind AS (
SELECT head.id AS id, count(*) AS records
FROM head JOIN "outbox" AS o ON o."aggregateid" = head.key
LEFT JOIN "postrider_troubles" AS t ON t.outbox = $1 AND o."id" = t.record_id
WHERE true AND t.dead IS NOT TRUE AND (o."created_at", o."id") > (head.s0, head.s1) GROUP BY head.id)
SELECT CAST(o."id" AS TEXT), CAST(o."id" AS TEXT), CAST(NULL AS TEXT), CAST(o."type" AS TEXT), CAST(o."aggregatetype" AS TEXT), CAST(o."aggregateid" AS TEXT), CAST(o."aggregateid" AS TEXT), CAST(NULL AS TEXT), CASE WHEN (t.dead) THEN 'dead' WHEN (false) THEN 'published' WHEN (true AND t.dead IS NOT TRUE AND coalesce(t.attempts, 0) > 0) THEN 'waiting' ELSE 'pending' END, CAST(coalesce(t.attempts, 0) AS INTEGER), t.last_error, o."created_at", NULL, CASE WHEN (true AND t.dead IS NOT TRUE AND coalesce(t.attempts, 0) > 0) THEN t.next_attempt_at END, CAST(octet_length(CAST(o."payload" AS TEXT)) AS INTEGER), CAST(o."created_at" AS TEXT), CAST(o."id" AS TEXT), coalesce(behind.records, 0)
FROM head JOIN "outbox" AS o ON o."id" = head.id
LEFT JOIN "postrider_troubles" AS t ON t.outbox = $1 AND o."id" = t.record_id LEFT JOIN behind ON behind.id = head.id
ORDER BY o."created_at", o."id"
