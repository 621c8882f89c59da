DELETE FROM "outbox_events" AS o WHERE o."id" IN (
SELECT o."id" FROM "outbox_events" AS o WHERE o."processed" = true AND o."error_message" IS NULL AND o."processed_at" < ($30 + -CAST($2 AS INTEGER))
LIMIT $1 )
