WITH page AS MATERIALIZED (
SELECT o."id" AS id FROM "outbox_events" AS o
WHERE (o."published_at" IS NULL AND o."attempt_count" < 25 AND o."attempt_count" > 0)
AND o."id" = ANY($1::uuid[])
AND o."event_type"::text = $2
AND o."aggregate_id"::text = $3
AND NULL::text = $4
AND strpos(lower(o."last_error"::text), lower($5)) > 0
AND o."created_at" >= 'epoch'::timestamptz + $6::int8 * interval '1 microsecond'
AND o."created_at" < 'epoch'::timestamptz + $7::int8 * interval '1 microsecond'
AND (o."created_at", o."id") > ($8::timestamp with time zone, $9::uuid)
ORDER BY o."created_at", o."id" LIMIT $10)
SELECT o."id"::text, o."id"::text, NULL::text, o."event_type"::text, o."aggregate_type"::text, o."aggregate_id"::text, o."aggregate_id"::text, NULL::text, CASE WHEN (o."published_at" IS NULL AND o."attempt_count" > 0 AND o."attempt_count" >= 25) THEN 'dead' WHEN (o."published_at" IS NOT NULL) THEN 'published' WHEN (o."published_at" IS NULL AND o."attempt_count" < 25 AND o."attempt_count" > 0) THEN 'waiting' ELSE 'pending' END, o."attempt_count"::int8, o."last_error"::text, o."created_at", CASE WHEN (o."published_at" IS NOT NULL) THEN o."published_at"::timestamptz END, NULL::timestamptz, octet_length(o."payload_json"::text)::int8, o."created_at"::text, o."id"::text
FROM page JOIN "outbox_events" AS o ON o."id" = page.id
ORDER BY o."created_at", o."id"
