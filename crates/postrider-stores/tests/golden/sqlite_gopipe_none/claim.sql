SELECT o."id" AS c0, o."event_type" AS c1, o."topic" AS c2, o."data" AS c3, o."attributes" AS c4, o."created_at" AS c5
FROM "outbox" AS o
WHERE o."published" = false
AND o."id" NOT IN (SELECT value FROM json_each($8))
AND ('i' || CAST(o."id" AS TEXT)) NOT IN (
  SELECT ('i' || v.x) FROM (SELECT value AS x FROM json_each($4)) AS v
  UNION ALL SELECT t.id_token FROM "postrider_troubles" AS t WHERE t.outbox = $3 AND (t.dead OR t.next_attempt_at > $30))
ORDER BY o."id"
LIMIT $1

