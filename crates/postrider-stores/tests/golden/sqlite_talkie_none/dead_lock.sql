SELECT CAST(o."id" AS TEXT)
FROM "outbox" AS o WHERE true AND o."published_at" IS NULL AND o."status" = 'dead_lettered'
AND o."id" IN (SELECT value FROM json_each($1))
ORDER BY o."id" 
