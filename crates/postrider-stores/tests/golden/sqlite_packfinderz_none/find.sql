WITH page AS MATERIALIZED (
SELECT o."id" AS id FROM "outbox_events" AS o
WHERE (o."published_at" IS NULL AND o."attempt_count" < 25 AND o."attempt_count" > 0)
AND o."id" IN (SELECT value FROM json_each($1))
AND CAST(o."event_type" AS TEXT) = $2
AND CAST(o."aggregate_id" AS TEXT) = $3
AND CAST(NULL AS TEXT) = $4
AND instr(lower(CAST(o."last_error" AS TEXT)), lower($5)) > 0
AND o."created_at" >= (0 + CAST($6 AS INTEGER))
AND o."created_at" < (0 + CAST($7 AS INTEGER))
AND (o."created_at", o."id") > ($8, $9)
ORDER BY o."created_at", o."id" LIMIT $10)
SELECT CAST(o."id" AS TEXT), CAST(o."id" AS TEXT), CAST(NULL AS TEXT), CAST(o."event_type" AS TEXT), CAST(o."aggregate_type" AS TEXT), CAST(o."aggregate_id" AS TEXT), CAST(o."aggregate_id" AS TEXT), CAST(NULL AS TEXT), CASE WHEN (o."published_at" IS NULL AND o."attempt_count" > 0 AND o."attempt_count" >= 25) THEN 'dead' WHEN (o."published_at" IS NOT NULL) THEN 'published' WHEN (o."published_at" IS NULL AND o."attempt_count" < 25 AND o."attempt_count" > 0) THEN 'waiting' ELSE 'pending' END, CAST(o."attempt_count" AS INTEGER), CAST(o."last_error" AS TEXT), o."created_at", CASE WHEN (o."published_at" IS NOT NULL) THEN o."published_at" END, NULL, CAST(octet_length(CAST(o."payload_json" AS TEXT)) AS INTEGER), CAST(o."created_at" AS TEXT), CAST(o."id" AS TEXT)
FROM page JOIN "outbox_events" AS o ON o."id" = page.id
ORDER BY o."created_at", o."id"
