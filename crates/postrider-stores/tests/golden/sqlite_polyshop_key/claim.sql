SELECT o."id" AS c0, o."event_type" AS c1, o."aggregate_id" AS c2, o."version" AS c3, o."payload" AS c4, o."metadata" AS c5, o."created_at" AS c6
FROM "outbox_events" AS o
WHERE o."processed" = false
AND ($2 IS NULL OR (1 * coalesce(unicode(substr(coalesce(CAST(o."aggregate_id" AS TEXT), CAST(o."id" AS TEXT)), -1, 1)), 0) + 31 * coalesce(unicode(substr(coalesce(CAST(o."aggregate_id" AS TEXT), CAST(o."id" AS TEXT)), -2, 1)), 0) + 17 * coalesce(unicode(substr(coalesce(CAST(o."aggregate_id" AS TEXT), CAST(o."id" AS TEXT)), -3, 1)), 0) + 13 * coalesce(unicode(substr(coalesce(CAST(o."aggregate_id" AS TEXT), CAST(o."id" AS TEXT)), -4, 1)), 0) + 7 * coalesce(unicode(substr(coalesce(CAST(o."aggregate_id" AS TEXT), CAST(o."id" AS TEXT)), -5, 1)), 0) + 29 * coalesce(unicode(substr(coalesce(CAST(o."aggregate_id" AS TEXT), CAST(o."id" AS TEXT)), -6, 1)), 0) + 19 * coalesce(unicode(substr(coalesce(CAST(o."aggregate_id" AS TEXT), CAST(o."id" AS TEXT)), -7, 1)), 0) + 23 * coalesce(unicode(substr(coalesce(CAST(o."aggregate_id" AS TEXT), CAST(o."id" AS TEXT)), -8, 1)), 0)) % 32 IN (SELECT value FROM json_each($2)))
AND coalesce(('k' || CAST(o."aggregate_id" AS TEXT)), ('i' || CAST(o."id" AS TEXT))) NOT IN (
  SELECT ('i' || v.x) FROM (SELECT value AS x FROM json_each($4)) AS v
  UNION ALL SELECT ('k' || v.x) FROM (SELECT value AS x FROM json_each($5)) AS v
  UNION ALL SELECT coalesce(t.key_token, t.id_token) FROM "postrider_troubles" AS t WHERE t.outbox = $3 AND (t.dead OR t.next_attempt_at > $30))
AND ('i' || CAST(o."id" AS TEXT)) NOT IN (
  SELECT ('i' || v.x) FROM (SELECT value AS x FROM json_each($4)) AS v
  UNION ALL SELECT t.id_token FROM "postrider_troubles" AS t WHERE t.outbox = $3 AND t.key_token IS NULL
    AND (t.dead OR t.next_attempt_at > $30))
ORDER BY o."created_at", o."id"
LIMIT $1

