WITH page AS MATERIALIZED (
SELECT o."id" AS id FROM "outbox" AS o
LEFT JOIN "postrider_troubles" AS t ON t.outbox = $1 AND o."id" = CAST(t.record_id AS INTEGER)
WHERE (o."published" = false AND t.dead IS NOT TRUE AND coalesce(t.attempts, 0) > 0)
AND o."id" IN (SELECT value FROM json_each($2))
AND CAST(o."event_type" AS TEXT) = $3
AND CAST(NULL AS TEXT) = $4
AND CAST(o."topic" AS TEXT) = $5
AND instr(lower(t.last_error), lower($6)) > 0
AND o."created_at" >= (0 + CAST($7 AS INTEGER))
AND o."created_at" < (0 + CAST($8 AS INTEGER))
AND (o."id") > (CAST($9 AS INTEGER))
ORDER BY o."id" LIMIT $10)
SELECT CAST(o."id" AS TEXT), CAST(NULL AS TEXT), CAST(o."attributes" AS TEXT), CAST(o."event_type" AS TEXT), CAST(NULL AS TEXT), CAST(NULL AS TEXT), CAST(NULL AS TEXT), CAST(o."topic" AS TEXT), CASE WHEN (t.dead AND o."published" = false) THEN 'dead' WHEN (o."published" = true) THEN 'published' WHEN (o."published" = false AND t.dead IS NOT TRUE AND coalesce(t.attempts, 0) > 0) THEN 'waiting' ELSE 'pending' END, CAST(coalesce(t.attempts, 0) AS INTEGER), t.last_error, o."created_at", NULL, CASE WHEN (o."published" = false AND t.dead IS NOT TRUE AND coalesce(t.attempts, 0) > 0) THEN t.next_attempt_at END, CAST(octet_length(CAST(o."data" AS TEXT)) AS INTEGER), CAST(o."id" AS TEXT)
FROM page JOIN "outbox" AS o ON o."id" = page.id
LEFT JOIN "postrider_troubles" AS t ON t.outbox = $1 AND o."id" = CAST(t.record_id AS INTEGER)
ORDER BY o."id"
