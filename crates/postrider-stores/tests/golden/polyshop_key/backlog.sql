SELECT count(*) AS pending, CASE WHEN min(o."created_at"::timestamptz) IS NOT NULL THEN (extract(epoch FROM clock_timestamp() - least(greatest(min(o."created_at"::timestamptz), '0001-01-01 00:00:00+00'), clock_timestamp())) * 1000000)::int8 END AS oldest,
(SELECT count(*) FROM "postrider_troubles" AS t JOIN "outbox_events" AS b ON b."id" = t.record_id::uuid WHERE t.outbox = $1 AND t.dead AND b."processed" = true AND b."error_message" IS NOT NULL) AS dead
FROM "outbox_events" AS o WHERE o."processed" = false
