SELECT o."id" AS c0, o."event_type"::text AS c1, o."aggregate_type"::text AS c2, o."aggregate_id" AS c3, o."payload_json" AS c4, o."created_at" AS c5, o."attempt_count" AS c6
FROM "outbox_events" AS o
WHERE o."published_at" IS NULL AND o."attempt_count" < 25
AND o."created_at" >= $9 AND o."created_at" <= $12
AND (o."attempt_count" <= 0 AND o."id" NOT IN (SELECT unnest($10::uuid[])) OR o."id" IN (SELECT unnest($6::uuid[])))
AND hashtextextended(o."id"::text COLLATE "C", 1) NOT IN (
  SELECT hashtextextended(v.x COLLATE "C", 1) FROM unnest($4::text[]) AS v(x))
ORDER BY o."created_at", o."id"
LIMIT $1
FOR NO KEY UPDATE OF o SKIP LOCKED
