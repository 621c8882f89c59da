WITH page AS MATERIALIZED (
SELECT o."id" AS id FROM "outbox" AS o
WHERE (o."published_at" IS NULL AND o."status" IN ('pending', 'failed', 'publishing') AND (o."status" = 'failed' AND o."retry_count" > 0))
AND o."id" IN (SELECT value FROM json_each($1))
AND CAST(NULL AS TEXT) = $2
AND CAST(o."key" AS TEXT) = $3
AND CAST(o."topic" AS TEXT) = $4
AND instr(lower(CAST(o."last_error" AS TEXT)), lower($5)) > 0
AND o."created_at" >= (0 + CAST($6 AS INTEGER))
AND o."created_at" < (0 + CAST($7 AS INTEGER))
AND (o."created_at", o."id") > ($8, $9)
ORDER BY o."created_at", o."id" LIMIT $10)
SELECT CAST(o."id" AS TEXT), CAST(o."id" AS TEXT), CAST(NULL AS TEXT), CAST(NULL AS TEXT), CAST(NULL AS TEXT), CAST(NULL AS TEXT), CAST(o."key" AS TEXT), CAST(o."topic" AS TEXT), CASE WHEN (o."published_at" IS NULL AND o."status" = 'dead_lettered') THEN 'dead' WHEN (o."status" = 'published') THEN 'published' WHEN (o."published_at" IS NULL AND o."status" IN ('pending', 'failed', 'publishing') AND (o."status" = 'failed' AND o."retry_count" > 0)) THEN 'waiting' ELSE 'pending' END, CAST(o."retry_count" AS INTEGER), CAST(o."last_error" AS TEXT), o."created_at", CASE WHEN (o."status" = 'published') THEN o."published_at" END, CASE WHEN (o."published_at" IS NULL AND o."status" IN ('pending', 'failed', 'publishing') AND (o."status" = 'failed' AND o."retry_count" > 0)) THEN o."next_attempt_at" END, CAST(octet_length(CAST(o."payload_json" AS TEXT)) AS INTEGER), CAST(o."created_at" AS TEXT), CAST(o."id" AS TEXT)
FROM page JOIN "outbox" AS o ON o."id" = page.id
ORDER BY o."created_at", o."id"
