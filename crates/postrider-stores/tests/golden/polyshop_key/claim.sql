SELECT o."id" AS c0, o."event_type" AS c1, o."aggregate_id" AS c2, o."version" AS c3, o."payload" AS c4, o."metadata" AS c5, o."created_at" AS c6
FROM "outbox_events" AS o
WHERE o."processed" = false
AND ($2::int4[] IS NULL OR (hashtext(coalesce(o."aggregate_id"::text, o."id"::text)) & 2147483647) % 32 = ANY($2::int4[]))
AND o."id" NOT IN (
  SELECT t.record_id::uuid FROM "postrider_troubles" AS t WHERE t.outbox = $3 AND (NOT t.dead AND t.next_attempt_at > now()))
AND (o."aggregate_id" IS NULL OR o."aggregate_id" NOT IN (
  SELECT b."aggregate_id" FROM "postrider_troubles" AS t JOIN "outbox_events" AS b ON b."id" = t.record_id::uuid WHERE t.outbox = $3 AND b."aggregate_id" IS NOT NULL AND (NOT t.dead AND t.next_attempt_at > now() AND b."processed" = false OR t.dead AND b."processed" = true AND b."error_message" IS NOT NULL)))
ORDER BY o."created_at", o."id"
LIMIT $1
FOR UPDATE OF o
