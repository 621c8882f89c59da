WITH page AS MATERIALIZED (
SELECT o."id" AS id FROM "outbox" AS o
WHERE (o."published_at" IS NULL AND o."status" IN ('pending', 'failed', 'publishing') AND (o."status" = 'failed' AND o."retry_count" > 0))
AND o."id" = ANY($1::uuid[])
AND NULL::text = $2
AND o."key"::text = $3
AND o."topic"::text = $4
AND strpos(lower(o."last_error"::text), lower($5)) > 0
AND o."created_at" >= 'epoch'::timestamptz + $6::int8 * interval '1 microsecond'
AND o."created_at" < 'epoch'::timestamptz + $7::int8 * interval '1 microsecond'
AND (o."created_at", o."id") > ($8::timestamp with time zone, $9::uuid)
ORDER BY o."created_at", o."id" LIMIT $10)
SELECT o."id"::text, o."id"::text, NULL::text, NULL::text, NULL::text, NULL::text, o."key"::text, o."topic"::text, CASE WHEN (o."published_at" IS NULL AND o."status" = 'dead_lettered') THEN 'dead' WHEN (o."status" = 'published') THEN 'published' WHEN (o."published_at" IS NULL AND o."status" IN ('pending', 'failed', 'publishing') AND (o."status" = 'failed' AND o."retry_count" > 0)) THEN 'waiting' ELSE 'pending' END, o."retry_count"::int8, o."last_error"::text, o."created_at", CASE WHEN (o."status" = 'published') THEN o."published_at"::timestamptz END, CASE WHEN (o."published_at" IS NULL AND o."status" IN ('pending', 'failed', 'publishing') AND (o."status" = 'failed' AND o."retry_count" > 0)) THEN o."next_attempt_at"::timestamptz END, octet_length(o."payload_json"::text)::int8, o."created_at"::text, o."id"::text
FROM page JOIN "outbox" AS o ON o."id" = page.id
ORDER BY o."created_at", o."id"
