SELECT o."id"::text, NULL::text, o."key"::text, o."topic"::text, o."retry_count"::int8, o."last_error"::text, o."created_at"::timestamptz
FROM "outbox" AS o WHERE true AND o."status" = 'dead_lettered'
AND ($2::uuid[] IS NULL OR o."id" = ANY($2::uuid[]))
AND ($3::text IS NULL OR NULL::text = $3)
AND ($4::text IS NULL OR o."key"::text = $4)
ORDER BY o."created_at", o."id" LIMIT $1
