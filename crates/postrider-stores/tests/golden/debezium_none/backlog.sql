SELECT count(*) AS pending, (extract(epoch FROM clock_timestamp() - min(o."created_at"::timestamptz)) * 1000000)::int8 AS oldest,
(SELECT count(*) FROM "postrider_troubles" AS t JOIN "outbox" AS b ON b."id" = t.record_id::uuid WHERE t.outbox = $1 AND t.dead) AS dead
FROM "outbox" AS o WHERE true AND o."id" NOT IN (SELECT b."id" FROM "postrider_troubles" AS t JOIN "outbox" AS b ON b."id" = t.record_id::uuid WHERE t.outbox = $1 AND t.dead)
