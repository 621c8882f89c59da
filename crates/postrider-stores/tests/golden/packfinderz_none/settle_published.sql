UPDATE "outbox_events" AS o SET "published_at" = clock_timestamp()
WHERE o."id" = ANY($1::uuid[]) AND CASE WHEN o."published_at" IS NULL THEN true END
