SELECT o."id"::text
FROM "outbox" AS o WHERE true AND o."published_at" IS NULL AND o."status" = 'dead_lettered'
AND o."id" = ANY($1::uuid[])
ORDER BY o."id" FOR UPDATE OF o
