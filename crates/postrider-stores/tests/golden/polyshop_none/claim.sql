SELECT o."id" AS c0, o."event_type" AS c1, o."aggregate_id" AS c2, o."version" AS c3, o."payload" AS c4, o."metadata" AS c5, o."created_at" AS c6
FROM "outbox_events" AS o
WHERE o."processed" = false
AND o."created_at" >= $9 AND o."created_at" <= $12
AND hashtextextended(o."id"::text COLLATE "C", 1) NOT IN (
  SELECT hashtextextended(v.x COLLATE "C", 1) FROM unnest($4::text[]) AS v(x)
  UNION ALL SELECT t.id_token FROM "postrider_troubles" AS t WHERE t.outbox = $3 AND NOT t.dead AND t.next_attempt_at > now() AND coalesce(t.record_created_at, 'infinity'::timestamptz) >= $9)
ORDER BY o."created_at", o."id"
LIMIT $1
FOR NO KEY UPDATE OF o SKIP LOCKED
