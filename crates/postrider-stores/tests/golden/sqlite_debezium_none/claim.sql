SELECT o."id" AS c0, o."type" AS c1, o."aggregatetype" AS c2, o."aggregateid" AS c3, o."payload" AS c4, o."created_at" AS c5
FROM "outbox" AS o
WHERE true
AND o."id" NOT IN (
  SELECT t.record_id FROM "postrider_troubles" AS t WHERE t.outbox = $3 AND (t.dead OR t.next_attempt_at > $30))
AND o."id" NOT IN (SELECT value FROM json_each($5))
ORDER BY o."created_at", o."id"
LIMIT $1

