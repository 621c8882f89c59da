DELETE FROM "outbox" AS o WHERE o."id" IN (
SELECT o."id" FROM "outbox" AS o WHERE o."published" = true AND o."created_at" < ($30 + -CAST($2 AS INTEGER))
LIMIT $1 )
