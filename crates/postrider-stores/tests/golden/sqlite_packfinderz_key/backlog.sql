SELECT count(*) AS pending, ($30 - min(o."created_at")) AS oldest,
(SELECT count(*) FROM "outbox_events" AS b WHERE true AND b."published_at" IS NULL AND b."attempt_count" > 0 AND b."attempt_count" >= 25) AS dead
FROM "outbox_events" AS o WHERE o."published_at" IS NULL AND o."attempt_count" < 25
