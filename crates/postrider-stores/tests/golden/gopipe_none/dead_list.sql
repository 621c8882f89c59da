SELECT o."id"::text, o."event_type"::text, NULL::text, o."topic"::text, t.attempts::int8, t.last_error, o."created_at"::timestamptz
FROM "postrider_troubles" AS t JOIN "outbox" AS o ON o."id" = t.record_id::bigint WHERE t.outbox = $5 AND t.dead AND o."published" = false
AND ($2::int8[] IS NULL OR o."id" = ANY($2::int8[]))
AND ($3::text IS NULL OR o."event_type"::text = $3)
AND ($4::text IS NULL OR NULL::text = $4)
ORDER BY o."id" LIMIT $1
