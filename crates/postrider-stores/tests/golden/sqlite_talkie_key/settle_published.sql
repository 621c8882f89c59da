UPDATE "outbox" AS o SET "status" = 'published', "published_at" = $30
WHERE o."id" IN (SELECT value FROM json_each($1)) AND o."status" = 'publishing' AND o."last_attempt_at" = $2
