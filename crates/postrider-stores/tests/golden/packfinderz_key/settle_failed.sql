UPDATE "outbox_events" AS o SET "attempt_count" = f.attempts, "last_error" = coalesce(f.error, o."last_error")
FROM unnest($1::uuid[], $2::int4[], $3::text[]) AS f(id, attempts, error)
WHERE o."id" = f.id AND CASE WHEN o."published_at" IS NULL THEN true END
