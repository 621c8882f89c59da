WITH page AS MATERIALIZED (
SELECT o."id" AS id FROM "outbox" AS o
LEFT JOIN "postrider_troubles" AS t ON t.outbox = $1 AND o."id" = t.record_id::bigint
WHERE (o."published" = false AND t.dead IS NOT TRUE AND coalesce(t.attempts, 0) > 0)
AND o."id" = ANY($2::int8[])
AND o."event_type"::text = $3
AND NULL::text = $4
AND o."topic"::text = $5
AND strpos(lower(t.last_error), lower($6)) > 0
AND o."created_at" >= 'epoch'::timestamptz + $7::int8 * interval '1 microsecond'
AND o."created_at" < 'epoch'::timestamptz + $8::int8 * interval '1 microsecond'
AND (o."id") > ($9::bigint)
ORDER BY o."id" LIMIT $10)
SELECT o."id"::text, NULL::text, o."attributes"::text, o."event_type"::text, NULL::text, NULL::text, NULL::text, o."topic"::text, CASE WHEN (t.dead AND o."published" = false) THEN 'dead' WHEN (o."published" = true) THEN 'published' WHEN (o."published" = false AND t.dead IS NOT TRUE AND coalesce(t.attempts, 0) > 0) THEN 'waiting' ELSE 'pending' END, coalesce(t.attempts, 0)::int8, t.last_error, o."created_at", NULL::timestamptz, CASE WHEN (o."published" = false AND t.dead IS NOT TRUE AND coalesce(t.attempts, 0) > 0) THEN t.next_attempt_at END, octet_length(o."data"::text)::int8, o."id"::text
FROM page JOIN "outbox" AS o ON o."id" = page.id
LEFT JOIN "postrider_troubles" AS t ON t.outbox = $1 AND o."id" = t.record_id::bigint
ORDER BY o."id"
