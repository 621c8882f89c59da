SELECT CAST(o."id" AS TEXT)
FROM "postrider_troubles" AS t JOIN "outbox_events" AS o ON o."id" = t.record_id WHERE t.outbox = $2 AND t.dead AND o."processed" = true AND o."error_message" IS NOT NULL
AND o."id" IN (SELECT value FROM json_each($1))
ORDER BY o."id" 
