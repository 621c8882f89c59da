UPDATE "outbox" AS o SET "published" = true
WHERE o."id" IN (SELECT value FROM json_each($1)) AND o."published" = false
