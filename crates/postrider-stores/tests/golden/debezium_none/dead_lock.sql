SELECT o."id"::text
FROM "postrider_troubles" AS t JOIN "outbox" AS o ON o."id" = t.record_id::uuid WHERE t.outbox = $2 AND t.dead
AND o."id" = ANY($1::uuid[])
ORDER BY o."id" FOR UPDATE OF o
