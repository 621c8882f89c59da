DELETE FROM "outbox" AS o WHERE o."id" = ANY($1::uuid[]);
DELETE FROM "postrider_troubles" AS t WHERE t.outbox = $1 AND t.id_token IN (SELECT hashtextextended(v.x COLLATE "C", 1) FROM unnest($2::text[]) AS v(x))
