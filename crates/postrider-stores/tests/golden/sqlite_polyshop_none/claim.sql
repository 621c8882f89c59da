SELECT o."id" AS c0, o."event_type" AS c1, o."aggregate_id" AS c2, o."version" AS c3, o."payload" AS c4, o."metadata" AS c5, o."created_at" AS c6
FROM "outbox_events" AS o
WHERE o."processed" = false
AND o."id" NOT IN (
  SELECT t.record_id FROM "postrider_troubles" AS t WHERE t.outbox = $3 AND (NOT t.dead AND t.next_attempt_at > $30))
AND o."id" NOT IN (SELECT value FROM json_each($5))
ORDER BY o."created_at", o."id"
LIMIT $1

