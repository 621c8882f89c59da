DELETE FROM "outbox_events" AS o WHERE o."id" = ANY(ARRAY(
SELECT o."id" FROM "outbox_events" AS o WHERE o."processed" = true AND o."error_message" IS NULL AND o."processed_at" < now() + -$2::int8 * interval '1 microsecond'
LIMIT $1 FOR UPDATE OF o SKIP LOCKED))
