DELETE FROM "processed_messages" AS o WHERE o.ctid = ANY(ARRAY(
SELECT o.ctid FROM "processed_messages" AS o WHERE o."created_at" < now() + -$2::int8 * interval '1 microsecond'
LIMIT $1 FOR UPDATE OF o SKIP LOCKED)) AND o."created_at" < now() + -$2::int8 * interval '1 microsecond'
