UPDATE "outbox" AS o SET "status" = 'publishing', "last_attempt_at" = now()
WHERE o."id" = ANY(ARRAY(
SELECT o."id"
FROM "outbox" AS o
WHERE o."published_at" IS NULL AND o."status" IN ('pending', 'failed', 'publishing')
AND (o."status" IN ('pending', 'failed') AND (o."next_attempt_at" IS NULL OR o."next_attempt_at" <= now() OR o."status" = 'pending' AND o."next_attempt_at" <= o."created_at")
  OR o."status" = 'publishing' AND NOT (o."last_attempt_at" IS NOT NULL AND o."last_attempt_at" >= now() + -60000000 * interval '1 microsecond'))
AND o."created_at" >= $9 AND o."created_at" <= $12
AND hashtextextended(o."id"::text COLLATE "C", 1) NOT IN (
  SELECT hashtextextended(v.x COLLATE "C", 1) FROM unnest($4::text[]) AS v(x))
ORDER BY o."created_at", o."id"
LIMIT $1
FOR NO KEY UPDATE OF o SKIP LOCKED
))
RETURNING o."id" AS c0, o."topic" AS c1, o."key" AS c2, o."idempotency_key" AS c3, o."payload_json" AS c4, o."created_at" AS c5, o."retry_count" AS c6, o."last_attempt_at"::timestamptz AS token
