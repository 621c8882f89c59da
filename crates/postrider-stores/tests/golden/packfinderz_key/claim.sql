SELECT o."id" AS c0, o."event_type"::text AS c1, o."aggregate_type"::text AS c2, o."aggregate_id" AS c3, o."payload_json" AS c4, o."created_at" AS c5, o."attempt_count" AS c6
FROM "outbox_events" AS o
WHERE o."published_at" IS NULL AND o."attempt_count" < 25
AND ($2::int4[] IS NULL OR (hashtext(coalesce(o."aggregate_id"::text, o."id"::text)) & 2147483647) % 32 = ANY($2::int4[]))
AND o."id" NOT IN (SELECT unnest($3::uuid[]))
AND (o."aggregate_id" IS NULL OR o."aggregate_id" NOT IN (SELECT unnest($4::text[]::uuid[])))
AND (o."aggregate_id" IS NULL OR o."aggregate_id" NOT IN (
  SELECT b."aggregate_id" FROM "outbox_events" AS b WHERE true AND b."aggregate_id" IS NOT NULL AND b."published_at" IS NULL AND b."attempt_count" > 0 AND b."attempt_count" >= 25))
ORDER BY o."created_at", o."id"
LIMIT $1
FOR UPDATE OF o
