SELECT o."id"::text
FROM "postrider_troubles" AS t JOIN "outbox_events" AS o ON o."id" = t.record_id::uuid WHERE t.outbox = $2 AND t.dead AND o."processed" = true AND o."error_message" IS NOT NULL
AND o."id" = ANY($1::uuid[])
ORDER BY o."id" FOR UPDATE OF o
