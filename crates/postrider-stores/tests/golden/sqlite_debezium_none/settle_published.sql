DELETE FROM "outbox" AS o WHERE o."id" IN (SELECT value FROM json_each($1))
