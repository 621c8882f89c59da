SELECT count(*) AS pending, CASE WHEN min(o."created_at"::timestamptz) IS NOT NULL THEN (extract(epoch FROM clock_timestamp() - least(greatest(min(o."created_at"::timestamptz), '0001-01-01 00:00:00+00'), clock_timestamp())) * 1000000)::int8 END AS oldest,
(SELECT count(*) FROM "postrider_troubles" AS t JOIN "outbox" AS b ON b."id" = t.record_id::uuid WHERE t.outbox = $1 AND t.dead) AS dead
FROM "outbox" AS o WHERE true AND o."id" NOT IN (SELECT b."id" FROM "postrider_troubles" AS t JOIN "outbox" AS b ON b."id" = t.record_id::uuid WHERE t.outbox = $1 AND t.dead)
