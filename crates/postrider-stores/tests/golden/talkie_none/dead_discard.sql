DELETE FROM "outbox" AS o WHERE o."id" = ANY($1::uuid[])
