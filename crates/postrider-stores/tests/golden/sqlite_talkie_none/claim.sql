SELECT o."id" AS c0, o."topic" AS c1, o."key" AS c2, o."idempotency_key" AS c3, o."payload_json" AS c4, o."created_at" AS c5, o."retry_count" AS c6
FROM "outbox" AS o
WHERE o."published_at" IS NULL AND o."status" IN ('pending', 'failed', 'publishing')
AND (o."status" IN ('pending', 'failed') AND (o."next_attempt_at" IS NULL OR o."next_attempt_at" <= $30 OR o."status" = 'pending' AND o."next_attempt_at" <= o."created_at")
  OR o."status" = 'publishing' AND NOT (o."last_attempt_at" IS NOT NULL AND o."last_attempt_at" >= ($30 + -60000000)))
AND ('i' || CAST(o."id" AS TEXT)) NOT IN (
  SELECT ('i' || v.x) FROM (SELECT value AS x FROM json_each($4)) AS v)
ORDER BY o."created_at", o."id"
LIMIT $1

