SELECT o."id" AS c0, o."type" AS c1, o."aggregatetype" AS c2, o."aggregateid" AS c3, o."payload" AS c4, o."created_at" AS c5
FROM "outbox" AS o
WHERE true
AND ($2::int4[] IS NULL OR (hashtext(coalesce(o."aggregateid"::text, o."id"::text)) & 2147483647) % 32 = ANY($2::int4[]))
AND o."id" NOT IN (
  SELECT t.record_id::uuid FROM "postrider_troubles" AS t WHERE t.outbox = $3 AND (t.dead OR t.next_attempt_at > now()))
AND (o."aggregateid" IS NULL OR o."aggregateid" NOT IN (
  SELECT b."aggregateid" FROM "postrider_troubles" AS t JOIN "outbox" AS b ON b."id" = t.record_id::uuid WHERE t.outbox = $3 AND b."aggregateid" IS NOT NULL AND (NOT t.dead AND t.next_attempt_at > now() AND true OR t.dead)))
ORDER BY o."created_at", o."id"
LIMIT $1
FOR UPDATE OF o
