DELETE FROM "outbox" AS o WHERE o."id" = ANY($1::int8[]);
DELETE FROM "postrider_troubles" AS t WHERE t.outbox = $1 AND t.record_id = ANY($2::text[])
