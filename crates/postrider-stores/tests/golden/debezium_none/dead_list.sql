SELECT o."id"::text, o."type"::text, o."aggregateid"::text, NULL::text, t.attempts::int8, t.last_error, o."created_at"::timestamptz
FROM "postrider_troubles" AS t JOIN "outbox" AS o ON o."id" = t.record_id::uuid WHERE t.outbox = $5 AND t.dead
AND ($2::uuid[] IS NULL OR o."id" = ANY($2::uuid[]))
AND ($3::text IS NULL OR o."type"::text = $3)
AND ($4::text IS NULL OR o."aggregateid"::text = $4)
ORDER BY o."created_at", o."id" LIMIT $1
