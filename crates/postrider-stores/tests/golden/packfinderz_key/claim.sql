SELECT o."id" AS c0, o."event_type"::text AS c1, o."aggregate_type"::text AS c2, o."aggregate_id" AS c3, o."payload_json" AS c4, o."created_at" AS c5, o."attempt_count" AS c6
FROM "outbox_events" AS o
WHERE o."published_at" IS NULL AND o."attempt_count" < 25
AND ($2::int4[] IS NULL OR (hashtext(coalesce(o."aggregate_id"::text, o."id"::text)) & 2147483647) % 32 = ANY($2::int4[]))
AND (o."attempt_count" <= 0 AND o."id" NOT IN (SELECT unnest($10::uuid[])) OR o."id" IN (SELECT unnest($6::uuid[])))
AND coalesce(hashtextextended(o."aggregate_id"::text COLLATE "C", 0), hashtextextended(o."id"::text COLLATE "C", 1)) NOT IN (
  SELECT hashtextextended(v.x COLLATE "C", 1) FROM unnest($4::text[]) AS v(x)
  UNION ALL SELECT hashtextextended(v.x COLLATE "C", 0) FROM unnest($5::text[]) AS v(x)
  UNION ALL SELECT hashtextextended(b."aggregate_id"::text COLLATE "C", 0) FROM "outbox_events" AS b WHERE b."aggregate_id" IS NOT NULL AND b."published_at" IS NULL AND b."attempt_count" > 0 AND b."id" NOT IN (SELECT unnest($6::uuid[]))
  UNION ALL SELECT hashtextextended(b."aggregate_id"::text COLLATE "C", 0) FROM "outbox_events" AS b WHERE b."aggregate_id" IS NOT NULL AND b."id" IN (SELECT unnest($10::uuid[])) AND CASE WHEN b."published_at" IS NULL THEN true END)
ORDER BY o."created_at", o."id"
LIMIT $1
FOR NO KEY UPDATE OF o
