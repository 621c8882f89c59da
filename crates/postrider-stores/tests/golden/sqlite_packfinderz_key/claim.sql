SELECT o."id" AS c0, CAST(o."event_type" AS TEXT) AS c1, CAST(o."aggregate_type" AS TEXT) AS c2, o."aggregate_id" AS c3, o."payload_json" AS c4, o."created_at" AS c5, o."attempt_count" AS c6
FROM "outbox_events" AS o
WHERE o."published_at" IS NULL AND o."attempt_count" < 25
AND ($2 IS NULL OR (1 * coalesce(unicode(substr(coalesce(CAST(o."aggregate_id" AS TEXT), CAST(o."id" AS TEXT)), -1, 1)), 0) + 31 * coalesce(unicode(substr(coalesce(CAST(o."aggregate_id" AS TEXT), CAST(o."id" AS TEXT)), -2, 1)), 0) + 17 * coalesce(unicode(substr(coalesce(CAST(o."aggregate_id" AS TEXT), CAST(o."id" AS TEXT)), -3, 1)), 0) + 13 * coalesce(unicode(substr(coalesce(CAST(o."aggregate_id" AS TEXT), CAST(o."id" AS TEXT)), -4, 1)), 0) + 7 * coalesce(unicode(substr(coalesce(CAST(o."aggregate_id" AS TEXT), CAST(o."id" AS TEXT)), -5, 1)), 0) + 29 * coalesce(unicode(substr(coalesce(CAST(o."aggregate_id" AS TEXT), CAST(o."id" AS TEXT)), -6, 1)), 0) + 19 * coalesce(unicode(substr(coalesce(CAST(o."aggregate_id" AS TEXT), CAST(o."id" AS TEXT)), -7, 1)), 0) + 23 * coalesce(unicode(substr(coalesce(CAST(o."aggregate_id" AS TEXT), CAST(o."id" AS TEXT)), -8, 1)), 0)) % 32 IN (SELECT value FROM json_each($2)))
AND (o."attempt_count" <= 0 AND o."id" NOT IN (SELECT value FROM json_each($10)) OR o."id" IN (SELECT value FROM json_each($6)))
AND coalesce(('k' || CAST(o."aggregate_id" AS TEXT)), ('i' || CAST(o."id" AS TEXT))) NOT IN (
  SELECT ('i' || v.x) FROM (SELECT value AS x FROM json_each($4)) AS v
  UNION ALL SELECT ('k' || v.x) FROM (SELECT value AS x FROM json_each($5)) AS v
  UNION ALL SELECT ('k' || CAST(b."aggregate_id" AS TEXT)) FROM "outbox_events" AS b WHERE b."aggregate_id" IS NOT NULL AND b."published_at" IS NULL AND b."attempt_count" > 0 AND b."id" NOT IN (SELECT value FROM json_each($6))
  UNION ALL SELECT ('k' || CAST(b."aggregate_id" AS TEXT)) FROM "outbox_events" AS b WHERE b."aggregate_id" IS NOT NULL AND b."id" IN (SELECT value FROM json_each($10)) AND b."published_at" IS NULL)
AND ('i' || CAST(o."id" AS TEXT)) NOT IN (
  SELECT ('i' || v.x) FROM (SELECT value AS x FROM json_each($4)) AS v)
ORDER BY o."created_at", o."id"
LIMIT $1

