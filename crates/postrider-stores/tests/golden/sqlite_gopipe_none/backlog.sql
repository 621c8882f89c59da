SELECT count(*) AS pending, ($30 - min(o."created_at")) AS oldest,
(SELECT count(*) FROM "postrider_troubles" AS t JOIN "outbox" AS b ON b."id" = CAST(t.record_id AS INTEGER) WHERE t.outbox = $1 AND t.dead AND b."published" = false) AS dead
FROM "outbox" AS o WHERE o."published" = false AND o."id" NOT IN (SELECT b."id" FROM "postrider_troubles" AS t JOIN "outbox" AS b ON b."id" = CAST(t.record_id AS INTEGER) WHERE t.outbox = $1 AND t.dead AND b."published" = false)
