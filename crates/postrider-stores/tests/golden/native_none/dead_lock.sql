SELECT o."position"::text
FROM "postrider_outbox_troubles" AS o WHERE true AND o.dead
AND o."position" = ANY($1::int8[])
ORDER BY o."position" FOR UPDATE OF o
