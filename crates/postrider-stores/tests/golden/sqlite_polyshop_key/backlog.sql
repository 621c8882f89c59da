SELECT count(*) AS pending, ($30 - min(o."created_at")) AS oldest,
(SELECT count(*) FROM "postrider_troubles" AS t JOIN "outbox_events" AS b ON b."id" = t.record_id WHERE t.outbox = $1 AND t.dead AND b."processed" = true AND b."error_message" IS NOT NULL) AS dead
FROM "outbox_events" AS o WHERE o."processed" = false
