DELETE FROM "outbox" AS o WHERE o."id" = ANY($1::uuid[]);
DELETE FROM "postrider_troubles" AS t WHERE t.outbox = $1 AND t.record_id = ANY($2::text[])
