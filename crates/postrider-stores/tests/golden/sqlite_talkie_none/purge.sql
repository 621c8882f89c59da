DELETE FROM "outbox" AS o WHERE o."id" IN (
SELECT o."id" FROM "outbox" AS o WHERE o."status" = 'published' AND o."published_at" < ($30 + -CAST($2 AS INTEGER))
LIMIT $1 )
