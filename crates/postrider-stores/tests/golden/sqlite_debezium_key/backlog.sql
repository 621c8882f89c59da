SELECT count(*) AS pending, ($30 - min(o."created_at")) AS oldest,
(SELECT count(*) FROM "postrider_troubles" AS t JOIN "outbox" AS b ON b."id" = t.record_id WHERE t.outbox = $1 AND t.dead) AS dead
FROM "outbox" AS o WHERE true AND o."id" NOT IN (SELECT b."id" FROM "postrider_troubles" AS t JOIN "outbox" AS b ON b."id" = t.record_id WHERE t.outbox = $1 AND t.dead)
