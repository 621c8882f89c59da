DELETE FROM "a ""b"""."c; --" AS o WHERE o.ctid = ANY(ARRAY(
SELECT o.ctid FROM "a ""b"""."c; --" AS o WHERE o."processed_at" < now() + -$2::int8 * interval '1 microsecond'
LIMIT $1 FOR UPDATE OF o SKIP LOCKED)) AND o."processed_at" < now() + -$2::int8 * interval '1 microsecond'
