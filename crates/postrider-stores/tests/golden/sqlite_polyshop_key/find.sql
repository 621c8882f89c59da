WITH page AS MATERIALIZED (
SELECT o."id" AS id FROM "outbox_events" AS o
LEFT JOIN "postrider_troubles" AS t ON t.outbox = $1 AND o."id" = t.record_id
WHERE (o."processed" = false AND coalesce(t.attempts, 0) > 0)
AND o."id" IN (SELECT value FROM json_each($2))
AND CAST(o."event_type" AS TEXT) = $3
AND CAST(o."aggregate_id" AS TEXT) = $4
AND CAST(NULL AS TEXT) = $5
AND instr(lower(coalesce(t.last_error, CAST(o."error_message" AS TEXT))), lower($6)) > 0
AND o."created_at" >= (0 + CAST($7 AS INTEGER))
AND o."created_at" < (0 + CAST($8 AS INTEGER))
AND (o."created_at", o."id") > ($9, $10)
ORDER BY o."created_at", o."id" LIMIT $11)
SELECT CAST(o."id" AS TEXT), CAST(o."id" AS TEXT), CAST(NULL AS TEXT), CAST(o."event_type" AS TEXT), CAST(NULL AS TEXT), CAST(o."aggregate_id" AS TEXT), CAST(o."aggregate_id" AS TEXT), CAST(NULL AS TEXT), CASE WHEN (t.dead AND o."processed" = true AND o."error_message" IS NOT NULL) THEN 'dead' WHEN (o."processed" = true AND (t.dead AND o."processed" = true AND o."error_message" IS NOT NULL) IS NOT TRUE) THEN 'published' WHEN (o."processed" = false AND coalesce(t.attempts, 0) > 0) THEN 'waiting' ELSE 'pending' END, CAST(coalesce(t.attempts, 0) AS INTEGER), coalesce(t.last_error, CAST(o."error_message" AS TEXT)), o."created_at", CASE WHEN (o."processed" = true AND (t.dead AND o."processed" = true AND o."error_message" IS NOT NULL) IS NOT TRUE) THEN o."processed_at" END, CASE WHEN (o."processed" = false AND coalesce(t.attempts, 0) > 0) THEN t.next_attempt_at END, CAST(octet_length(CAST(o."payload" AS TEXT)) AS INTEGER), CAST(o."created_at" AS TEXT), CAST(o."id" AS TEXT)
FROM page JOIN "outbox_events" AS o ON o."id" = page.id
LEFT JOIN "postrider_troubles" AS t ON t.outbox = $1 AND o."id" = t.record_id
ORDER BY o."created_at", o."id"
