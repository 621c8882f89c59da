SELECT count(*) AS pending, ($30 - min(o."created_at")) AS oldest,
(SELECT count(*) FROM "outbox" AS b WHERE true AND b."published_at" IS NULL AND b."status" = 'dead_lettered') AS dead
FROM "outbox" AS o WHERE o."published_at" IS NULL AND o."status" IN ('pending', 'failed', 'publishing')
