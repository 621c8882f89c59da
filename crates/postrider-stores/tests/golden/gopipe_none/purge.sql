DELETE FROM "outbox" AS o WHERE o."id" = ANY(ARRAY(
SELECT o."id" FROM "outbox" AS o WHERE o."published" = true AND o."created_at" < now() + -$2::int8 * interval '1 microsecond'
LIMIT $1 FOR UPDATE OF o SKIP LOCKED))
