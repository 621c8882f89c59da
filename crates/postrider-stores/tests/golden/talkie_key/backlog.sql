SELECT count(*) AS pending, CASE WHEN min(o."created_at"::timestamptz) IS NOT NULL THEN (extract(epoch FROM clock_timestamp() - least(greatest(min(o."created_at"::timestamptz), '0001-01-01 00:00:00+00'), clock_timestamp())) * 1000000)::int8 END AS oldest,
(SELECT count(*) FROM "outbox" AS b WHERE true AND b."published_at" IS NULL AND b."status" = 'dead_lettered') AS dead
FROM "outbox" AS o WHERE o."published_at" IS NULL AND o."status" IN ('pending', 'failed', 'publishing')
