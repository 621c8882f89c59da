WITH head AS MATERIALIZED (
SELECT o."id", o."status", o."next_attempt_at", o."last_attempt_at", o."created_at", coalesce(hashtextextended(o."key"::text COLLATE "C", 0), hashtextextended(o."id"::text COLLATE "C", 1)) AS token
FROM "outbox" AS o
WHERE o."published_at" IS NULL
AND ($2::int4[] IS NULL OR (hashtext(coalesce(o."key"::text, o."id"::text)) & 2147483647) % 32 = ANY($2::int4[]))
ORDER BY o."created_at", o."id"
LIMIT $7)
UPDATE "outbox" AS o SET "status" = 'publishing', "last_attempt_at" = now()
WHERE o."id" = ANY(ARRAY(
SELECT c."id"
FROM head AS c
WHERE (c."status" IN ('pending', 'failed') AND (c."next_attempt_at" IS NULL OR c."next_attempt_at" <= now() OR c."status" = 'pending' AND c."next_attempt_at" <= c."created_at")
  OR c."status" = 'publishing' AND NOT (c."last_attempt_at" IS NOT NULL AND c."last_attempt_at" >= now() + -60000000 * interval '1 microsecond'))
AND c.token NOT IN (
  SELECT b.token FROM head AS b WHERE (b."status" = 'publishing' AND b."last_attempt_at" IS NOT NULL AND b."last_attempt_at" >= now() + -60000000 * interval '1 microsecond' OR b."status" = 'failed' AND b."next_attempt_at" > now() OR b."status" = 'dead_lettered')
  UNION ALL SELECT hashtextextended(v.x COLLATE "C", 1) FROM unnest($4::text[]) AS v(x)
  UNION ALL SELECT hashtextextended(v.x COLLATE "C", 0) FROM unnest($5::text[]) AS v(x))
ORDER BY c."created_at", c."id"
LIMIT $1
))
AND CASE WHEN o."published_at" IS NULL AND o."status" IN ('pending', 'failed', 'publishing') THEN true END
AND (o."status" IN ('pending', 'failed') AND (o."next_attempt_at" IS NULL OR o."next_attempt_at" <= now() OR o."status" = 'pending' AND o."next_attempt_at" <= o."created_at")
  OR o."status" = 'publishing' AND NOT (o."last_attempt_at" IS NOT NULL AND o."last_attempt_at" >= now() + -60000000 * interval '1 microsecond'))
RETURNING o."id" AS c0, o."topic" AS c1, o."key" AS c2, o."idempotency_key" AS c3, o."payload_json" AS c4, o."created_at" AS c5, o."retry_count" AS c6, o."last_attempt_at"::timestamptz AS token, (SELECT count(*) FROM head) AS seen
