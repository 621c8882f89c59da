SELECT o."id"::text, o."event_type"::text, o."aggregate_id"::text, NULL::text, o."attempt_count"::int8, o."last_error"::text, o."created_at"::timestamptz
FROM "outbox_events" AS o WHERE true AND o."published_at" IS NULL AND o."attempt_count" > 0 AND o."attempt_count" >= 25
AND ($2::uuid[] IS NULL OR o."id" = ANY($2::uuid[]))
AND ($3::text IS NULL OR o."event_type"::text = $3)
AND ($4::text IS NULL OR o."aggregate_id"::text = $4)
ORDER BY o."created_at", o."id" LIMIT $1
