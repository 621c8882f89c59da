DELETE FROM "outbox" AS o WHERE o."id" IN (SELECT value FROM json_each($1));
DELETE FROM "postrider_troubles" AS t WHERE t.outbox = $1 AND t.id_token IN (SELECT ('i' || v.x) FROM (SELECT value AS x FROM json_each($2)) AS v)
