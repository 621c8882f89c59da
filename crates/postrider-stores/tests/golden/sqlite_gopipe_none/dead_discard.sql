DELETE FROM "outbox" AS o WHERE o."id" IN (SELECT value FROM json_each($1));
DELETE FROM "postrider_troubles" AS t WHERE t.outbox = $1 AND t.record_id IN (SELECT value FROM json_each($2))
