SELECT o."id" AS c0, o."type" AS c1, o."aggregatetype" AS c2, o."aggregateid" AS c3, o."payload" AS c4, o."created_at" AS c5
FROM "outbox" AS o
WHERE true
AND ($2::int4[] IS NULL OR (hashtext(coalesce(o."aggregateid"::text, o."id"::text)) & 2147483647) % 32 = ANY($2::int4[]))
AND coalesce(hashtextextended(o."aggregateid"::text COLLATE "C", 0), hashtextextended(o."id"::text COLLATE "C", 1)) NOT IN (
  SELECT hashtextextended(v.x COLLATE "C", 1) FROM unnest($4::text[]) AS v(x)
  UNION ALL SELECT hashtextextended(v.x COLLATE "C", 0) FROM unnest($5::text[]) AS v(x)
  UNION ALL SELECT coalesce(t.key_token, t.id_token) FROM "postrider_troubles" AS t WHERE t.outbox = $3 AND (t.dead OR t.next_attempt_at > now()))
ORDER BY o."created_at", o."id"
LIMIT $1
FOR UPDATE OF o
