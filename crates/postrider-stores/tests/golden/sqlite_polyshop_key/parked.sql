WITH held AS (
SELECT o."id" AS id, o."aggregate_id" AS key, o."created_at" AS s0, o."id" AS s1, row_number() OVER (PARTITION BY o."aggregate_id" ORDER BY o."created_at", o."id") AS place
FROM "outbox_events" AS o
LEFT JOIN "postrider_troubles" AS t ON t.outbox = $1 AND o."id" = t.record_id
WHERE o."aggregate_id" IS NOT NULL AND ((t.dead AND o."processed" = true AND o."error_message" IS NOT NULL) OR (o."processed" = false AND coalesce(t.attempts, 0) > 0))),
head AS MATERIALIZED (
SELECT * FROM held WHERE place = 1 ORDER BY s0, s1 LIMIT $2),
behind AS (
SELECT head.id AS id, count(*) AS records
FROM head JOIN "outbox_events" AS o ON o."aggregate_id" = head.key
LEFT JOIN "postrider_troubles" AS t ON t.outbox = $1 AND o."id" = t.record_id
WHERE o."processed" = false AND (o."created_at", o."id") > (head.s0, head.s1) GROUP BY head.id)
SELECT CAST(o."id" AS TEXT), CAST(o."id" AS TEXT), CAST(NULL AS TEXT), CAST(o."event_type" AS TEXT), CAST(NULL AS TEXT), CAST(o."aggregate_id" AS TEXT), CAST(o."aggregate_id" AS TEXT), CAST(NULL AS TEXT), CASE WHEN (t.dead AND o."processed" = true AND o."error_message" IS NOT NULL) THEN 'dead' WHEN (o."processed" = true AND (t.dead AND o."processed" = true AND o."error_message" IS NOT NULL) IS NOT TRUE) THEN 'published' WHEN (o."processed" = false AND coalesce(t.attempts, 0) > 0) THEN 'waiting' ELSE 'pending' END, CAST(coalesce(t.attempts, 0) AS INTEGER), coalesce(t.last_error, CAST(o."error_message" AS TEXT)), o."created_at", CASE WHEN (o."processed" = true AND (t.dead AND o."processed" = true AND o."error_message" IS NOT NULL) IS NOT TRUE) THEN o."processed_at" END, CASE WHEN (o."processed" = false AND coalesce(t.attempts, 0) > 0) THEN t.next_attempt_at END, CAST(octet_length(CAST(o."payload" AS TEXT)) AS INTEGER), CAST(o."created_at" AS TEXT), CAST(o."id" AS TEXT), coalesce(behind.records, 0)
FROM head JOIN "outbox_events" AS o ON o."id" = head.id
LEFT JOIN "postrider_troubles" AS t ON t.outbox = $1 AND o."id" = t.record_id LEFT JOIN behind ON behind.id = head.id
ORDER BY o."created_at", o."id"
