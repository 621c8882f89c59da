SELECT o."id" AS c0, o."event_type" AS c1, o."topic" AS c2, o."data" AS c3, o."attributes" AS c4, o."created_at" AS c5
FROM "outbox" AS o
WHERE o."published" = false
AND o."id" NOT IN (
  SELECT CAST(t.record_id AS INTEGER) FROM "postrider_troubles" AS t WHERE t.outbox = $3 AND (t.dead OR t.next_attempt_at > $30))
AND o."id" NOT IN (SELECT value FROM json_each($5))
ORDER BY o."id"
LIMIT $1

