SELECT o."id" AS c0, CAST(o."event_type" AS TEXT) AS c1, CAST(o."aggregate_type" AS TEXT) AS c2, o."aggregate_id" AS c3, o."payload_json" AS c4, o."created_at" AS c5, o."attempt_count" AS c6
FROM "outbox_events" AS o
WHERE o."published_at" IS NULL AND o."attempt_count" < 25
AND (o."attempt_count" <= 0 AND o."id" NOT IN (SELECT value FROM json_each($10)) OR o."id" IN (SELECT value FROM json_each($6)))
AND o."id" NOT IN (SELECT value FROM json_each($8))
AND ('i' || CAST(o."id" AS TEXT)) NOT IN (
  SELECT ('i' || v.x) FROM (SELECT value AS x FROM json_each($4)) AS v)
ORDER BY o."created_at", o."id"
LIMIT $1

