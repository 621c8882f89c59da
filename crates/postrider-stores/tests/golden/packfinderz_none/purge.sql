DELETE FROM "outbox_events" AS o WHERE o."id" = ANY(ARRAY(
SELECT o."id" FROM "outbox_events" AS o WHERE o."published_at" IS NOT NULL AND o."published_at" < now() + -$2::int8 * interval '1 microsecond'
LIMIT $1 FOR UPDATE OF o SKIP LOCKED))
