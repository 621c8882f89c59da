UPDATE "outbox" AS o SET "status" = 'published', "published_at" = clock_timestamp()
WHERE o."id" = ANY($1::uuid[]) AND o."status" = 'publishing' AND o."last_attempt_at" = $2
