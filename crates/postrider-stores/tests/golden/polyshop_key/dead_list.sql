SELECT o."id"::text, o."event_type"::text, o."aggregate_id"::text, NULL::text, t.attempts::int8, t.last_error, o."created_at"::timestamptz
FROM "postrider_troubles" AS t JOIN "outbox_events" AS o ON o."id" = t.record_id::uuid WHERE t.outbox = $5 AND t.dead AND o."processed" = true AND o."error_message" IS NOT NULL
AND ($2::uuid[] IS NULL OR o."id" = ANY($2::uuid[]))
AND ($3::text IS NULL OR o."event_type"::text = $3)
AND ($4::text IS NULL OR o."aggregate_id"::text = $4)
ORDER BY o."created_at", o."id" LIMIT $1
