WITH page AS MATERIALIZED (
SELECT o."id" AS id FROM "outbox" AS o
LEFT JOIN "postrider_troubles" AS t ON t.outbox = $1 AND o."id" = t.record_id
WHERE (true AND t.dead IS NOT TRUE AND coalesce(t.attempts, 0) > 0)
AND o."id" IN (SELECT value FROM json_each($2))
AND CAST(o."type" AS TEXT) = $3
AND CAST(o."aggregateid" AS TEXT) = $4
AND CAST(NULL AS TEXT) = $5
AND instr(lower(t.last_error), lower($6)) > 0
AND o."created_at" >= (0 + CAST($7 AS INTEGER))
AND o."created_at" < (0 + CAST($8 AS INTEGER))
AND (o."created_at", o."id") > ($9, $10)
ORDER BY o."created_at", o."id" LIMIT $11)
SELECT CAST(o."id" AS TEXT), CAST(o."id" AS TEXT), CAST(NULL AS TEXT), CAST(o."type" AS TEXT), CAST(o."aggregatetype" AS TEXT), CAST(o."aggregateid" AS TEXT), CAST(o."aggregateid" AS TEXT), CAST(NULL AS TEXT), CASE WHEN (t.dead) THEN 'dead' WHEN (false) THEN 'published' WHEN (true AND t.dead IS NOT TRUE AND coalesce(t.attempts, 0) > 0) THEN 'waiting' ELSE 'pending' END, CAST(coalesce(t.attempts, 0) AS INTEGER), t.last_error, o."created_at", NULL, CASE WHEN (true AND t.dead IS NOT TRUE AND coalesce(t.attempts, 0) > 0) THEN t.next_attempt_at END, CAST(octet_length(CAST(o."payload" AS TEXT)) AS INTEGER), CAST(o."created_at" AS TEXT), CAST(o."id" AS TEXT)
FROM page JOIN "outbox" AS o ON o."id" = page.id
LEFT JOIN "postrider_troubles" AS t ON t.outbox = $1 AND o."id" = t.record_id
ORDER BY o."created_at", o."id"
