SELECT CAST(o."id" AS TEXT)
FROM "postrider_troubles" AS t JOIN "outbox" AS o ON o."id" = CAST(t.record_id AS INTEGER) WHERE t.outbox = $2 AND t.dead AND o."published" = false
AND o."id" IN (SELECT value FROM json_each($1))
ORDER BY o."id" 
