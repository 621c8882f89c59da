SELECT o."id" AS c0, o."event_type" AS c1, o."topic" AS c2, o."data" AS c3, o."attributes" AS c4, o."created_at" AS c5
FROM "outbox" AS o
WHERE o."published" = false
AND o."id" NOT IN (
  SELECT t.record_id::bigint FROM "postrider_troubles" AS t WHERE t.outbox = $3 AND (t.dead OR t.next_attempt_at > now()))
ORDER BY o."id"
LIMIT $1
FOR UPDATE OF o SKIP LOCKED
