SELECT o."id" AS c0, o."type" AS c1, o."aggregatetype" AS c2, o."aggregateid" AS c3, o."payload" AS c4, o."created_at" AS c5
FROM "outbox" AS o
WHERE true
AND o."id" NOT IN (SELECT value FROM json_each($8))
AND ('i' || CAST(o."id" AS TEXT)) NOT IN (
  SELECT ('i' || v.x) FROM (SELECT value AS x FROM json_each($4)) AS v
  UNION ALL SELECT t.id_token FROM "postrider_troubles" AS t WHERE t.outbox = $3 AND (t.dead OR t.next_attempt_at > $30))
ORDER BY o."created_at", o."id"
LIMIT $1

