DELETE FROM "outbox_events" AS o WHERE o."id" IN (
SELECT o."id" FROM "outbox_events" AS o WHERE o."published_at" IS NOT NULL AND o."published_at" < ($30 + -CAST($2 AS INTEGER))
LIMIT $1 )
