SELECT o."id" AS c0, CAST(o."event_type" AS TEXT) AS c1, CAST(o."aggregate_type" AS TEXT) AS c2, o."aggregate_id" AS c3, o."payload_json" AS c4, o."created_at" AS c5, o."attempt_count" AS c6
FROM "outbox_events" AS o
WHERE o."published_at" IS NULL AND o."attempt_count" < 25
AND ($2 IS NULL OR (1 * coalesce(unicode(substr(coalesce(CAST(o."aggregate_id" AS TEXT), CAST(o."id" AS TEXT)), -1, 1)), 0) + 31 * coalesce(unicode(substr(coalesce(CAST(o."aggregate_id" AS TEXT), CAST(o."id" AS TEXT)), -2, 1)), 0) + 17 * coalesce(unicode(substr(coalesce(CAST(o."aggregate_id" AS TEXT), CAST(o."id" AS TEXT)), -3, 1)), 0) + 13 * coalesce(unicode(substr(coalesce(CAST(o."aggregate_id" AS TEXT), CAST(o."id" AS TEXT)), -4, 1)), 0) + 7 * coalesce(unicode(substr(coalesce(CAST(o."aggregate_id" AS TEXT), CAST(o."id" AS TEXT)), -5, 1)), 0) + 29 * coalesce(unicode(substr(coalesce(CAST(o."aggregate_id" AS TEXT), CAST(o."id" AS TEXT)), -6, 1)), 0) + 19 * coalesce(unicode(substr(coalesce(CAST(o."aggregate_id" AS TEXT), CAST(o."id" AS TEXT)), -7, 1)), 0) + 23 * coalesce(unicode(substr(coalesce(CAST(o."aggregate_id" AS TEXT), CAST(o."id" AS TEXT)), -8, 1)), 0)) % 32 IN (SELECT value FROM json_each($2)))
AND o."id" NOT IN (SELECT value FROM json_each($3))
AND (o."aggregate_id" IS NULL OR o."aggregate_id" NOT IN (SELECT value FROM json_each($4)))
AND (o."aggregate_id" IS NULL OR o."aggregate_id" NOT IN (
  SELECT b."aggregate_id" FROM "outbox_events" AS b WHERE true AND b."aggregate_id" IS NOT NULL AND b."published_at" IS NULL AND b."attempt_count" > 0 AND b."attempt_count" >= 25))
ORDER BY o."created_at", o."id"
LIMIT $1

