SELECT o."id"::text
FROM "postrider_troubles" AS t JOIN "outbox" AS o ON o."id" = t.record_id::bigint WHERE t.outbox = $2 AND t.dead AND o."published" = false
AND o."id" = ANY($1::int8[])
ORDER BY o."id" FOR UPDATE OF o
