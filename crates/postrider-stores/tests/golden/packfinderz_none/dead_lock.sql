SELECT o."id"::text
FROM "outbox_events" AS o WHERE true AND o."published_at" IS NULL AND o."attempt_count" > 0 AND o."attempt_count" >= 25
AND o."id" = ANY($1::uuid[])
ORDER BY o."id" FOR UPDATE OF o
