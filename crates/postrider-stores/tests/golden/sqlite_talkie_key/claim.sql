SELECT o."id" AS c0, o."topic" AS c1, o."key" AS c2, o."idempotency_key" AS c3, o."payload_json" AS c4, o."created_at" AS c5, o."retry_count" AS c6
FROM "outbox" AS o
WHERE o."published_at" IS NULL AND o."status" IN ('pending', 'failed', 'publishing')
AND (o."status" IN ('pending', 'failed') AND (o."next_attempt_at" IS NULL OR o."next_attempt_at" <= $30 OR o."status" = 'pending' AND o."next_attempt_at" <= o."created_at")
  OR o."status" = 'publishing' AND NOT (o."last_attempt_at" IS NOT NULL AND o."last_attempt_at" >= ($30 + -60000000)))
AND ($2 IS NULL OR (1 * coalesce(unicode(substr(coalesce(CAST(o."key" AS TEXT), CAST(o."id" AS TEXT)), -1, 1)), 0) + 31 * coalesce(unicode(substr(coalesce(CAST(o."key" AS TEXT), CAST(o."id" AS TEXT)), -2, 1)), 0) + 17 * coalesce(unicode(substr(coalesce(CAST(o."key" AS TEXT), CAST(o."id" AS TEXT)), -3, 1)), 0) + 13 * coalesce(unicode(substr(coalesce(CAST(o."key" AS TEXT), CAST(o."id" AS TEXT)), -4, 1)), 0) + 7 * coalesce(unicode(substr(coalesce(CAST(o."key" AS TEXT), CAST(o."id" AS TEXT)), -5, 1)), 0) + 29 * coalesce(unicode(substr(coalesce(CAST(o."key" AS TEXT), CAST(o."id" AS TEXT)), -6, 1)), 0) + 19 * coalesce(unicode(substr(coalesce(CAST(o."key" AS TEXT), CAST(o."id" AS TEXT)), -7, 1)), 0) + 23 * coalesce(unicode(substr(coalesce(CAST(o."key" AS TEXT), CAST(o."id" AS TEXT)), -8, 1)), 0)) % 32 IN (SELECT value FROM json_each($2)))
AND coalesce(('k' || CAST(o."key" AS TEXT)), ('i' || CAST(o."id" AS TEXT))) NOT IN (
  SELECT ('i' || v.x) FROM (SELECT value AS x FROM json_each($4)) AS v
  UNION ALL SELECT ('k' || v.x) FROM (SELECT value AS x FROM json_each($5)) AS v
  UNION ALL SELECT ('k' || CAST(b."key" AS TEXT)) FROM "outbox" AS b WHERE b."key" IS NOT NULL AND b."published_at" IS NULL AND (b."status" = 'publishing' AND b."last_attempt_at" IS NOT NULL AND b."last_attempt_at" >= ($30 + -60000000) OR b."status" = 'failed' AND b."next_attempt_at" > $30 OR b."status" = 'dead_lettered'))
AND ('i' || CAST(o."id" AS TEXT)) NOT IN (
  SELECT ('i' || v.x) FROM (SELECT value AS x FROM json_each($4)) AS v)
ORDER BY o."created_at", o."id"
LIMIT $1

