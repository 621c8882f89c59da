SELECT CAST(o."id" AS TEXT)
FROM "outbox_events" AS o WHERE true AND o."published_at" IS NULL AND o."attempt_count" > 0 AND o."attempt_count" >= 25
AND o."id" IN (SELECT value FROM json_each($1))
ORDER BY o."id" 
