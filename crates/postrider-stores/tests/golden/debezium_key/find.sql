WITH page AS MATERIALIZED (
SELECT o."id" AS id FROM "outbox" AS o
LEFT JOIN "postrider_troubles" AS t ON t.outbox = $1 AND o."id" = t.record_id::uuid
WHERE (true AND t.dead IS NOT TRUE AND coalesce(t.attempts, 0) > 0)
AND o."id" = ANY($2::uuid[])
AND o."type"::text = $3
AND o."aggregateid"::text = $4
AND NULL::text = $5
AND strpos(lower(t.last_error), lower($6)) > 0
AND o."created_at" >= 'epoch'::timestamptz + $7::int8 * interval '1 microsecond'
AND o."created_at" < 'epoch'::timestamptz + $8::int8 * interval '1 microsecond'
AND (o."created_at", o."id") > ($9::timestamp with time zone, $10::uuid)
ORDER BY o."created_at", o."id" LIMIT $11)
SELECT o."id"::text, o."id"::text, NULL::text, o."type"::text, o."aggregatetype"::text, o."aggregateid"::text, o."aggregateid"::text, NULL::text, CASE WHEN (t.dead) THEN 'dead' WHEN (false) THEN 'published' WHEN (true AND t.dead IS NOT TRUE AND coalesce(t.attempts, 0) > 0) THEN 'waiting' ELSE 'pending' END, coalesce(t.attempts, 0)::int8, t.last_error, o."created_at", NULL::timestamptz, CASE WHEN (true AND t.dead IS NOT TRUE AND coalesce(t.attempts, 0) > 0) THEN t.next_attempt_at END, octet_length(o."payload"::text)::int8, o."created_at"::text, o."id"::text
FROM page JOIN "outbox" AS o ON o."id" = page.id
LEFT JOIN "postrider_troubles" AS t ON t.outbox = $1 AND o."id" = t.record_id::uuid
ORDER BY o."created_at", o."id"
