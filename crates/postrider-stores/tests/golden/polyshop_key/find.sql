WITH page AS MATERIALIZED (
SELECT o."id" AS id FROM "outbox_events" AS o
LEFT JOIN "postrider_troubles" AS t ON t.outbox = $1 AND o."id" = t.record_id::uuid
WHERE (o."processed" = false AND coalesce(t.attempts, 0) > 0)
AND o."id" = ANY($2::uuid[])
AND o."event_type"::text = $3
AND o."aggregate_id"::text = $4
AND NULL::text = $5
AND strpos(lower(coalesce(t.last_error, o."error_message"::text)), lower($6)) > 0
AND o."created_at" >= 'epoch'::timestamptz + $7::int8 * interval '1 microsecond'
AND o."created_at" < 'epoch'::timestamptz + $8::int8 * interval '1 microsecond'
AND (o."created_at", o."id") > ($9::timestamp with time zone, $10::uuid)
ORDER BY o."created_at", o."id" LIMIT $11)
SELECT o."id"::text, o."id"::text, NULL::text, o."event_type"::text, NULL::text, o."aggregate_id"::text, o."aggregate_id"::text, NULL::text, CASE WHEN (t.dead AND o."processed" = true AND o."error_message" IS NOT NULL) THEN 'dead' WHEN (o."processed" = true AND (t.dead AND o."processed" = true AND o."error_message" IS NOT NULL) IS NOT TRUE) THEN 'published' WHEN (o."processed" = false AND coalesce(t.attempts, 0) > 0) THEN 'waiting' ELSE 'pending' END, coalesce(t.attempts, 0)::int8, coalesce(t.last_error, o."error_message"::text), o."created_at", CASE WHEN (o."processed" = true AND (t.dead AND o."processed" = true AND o."error_message" IS NOT NULL) IS NOT TRUE) THEN o."processed_at"::timestamptz END, CASE WHEN (o."processed" = false AND coalesce(t.attempts, 0) > 0) THEN t.next_attempt_at END, octet_length(o."payload"::text)::int8, o."created_at"::text, o."id"::text
FROM page JOIN "outbox_events" AS o ON o."id" = page.id
LEFT JOIN "postrider_troubles" AS t ON t.outbox = $1 AND o."id" = t.record_id::uuid
ORDER BY o."created_at", o."id"
