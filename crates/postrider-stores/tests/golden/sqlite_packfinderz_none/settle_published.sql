UPDATE "outbox_events" AS o SET "published_at" = $30
WHERE o."id" IN (SELECT value FROM json_each($1)) AND o."published_at" IS NULL
