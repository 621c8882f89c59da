SELECT o."id" AS c0, o."event_type"::text AS c1, o."aggregate_type"::text AS c2, o."aggregate_id" AS c3, o."payload_json" AS c4, o."created_at" AS c5, o."attempt_count" AS c6
FROM "outbox_events" AS o
WHERE o."published_at" IS NULL AND o."attempt_count" < 25
AND o."id" NOT IN (SELECT unnest($3::uuid[]))
ORDER BY o."created_at", o."id"
LIMIT $1
FOR UPDATE OF o SKIP LOCKED
