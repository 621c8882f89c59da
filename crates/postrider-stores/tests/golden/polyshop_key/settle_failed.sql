WITH f AS (SELECT * FROM unnest($1::uuid[], $2::int4[], $3::text[], $4::int8[], $5::bool[], $6::text[]) AS f(id, attempts, error, wait, dead, key)), marked AS (
UPDATE "outbox_events" AS o SET "error_message" = coalesce(f.error, o."error_message"), "processed" = f.dead FROM f WHERE o."id" = f.id AND o."processed" = false)
INSERT INTO "postrider_troubles" (outbox, record_id, key, attempts, next_attempt_at, last_error, dead)
SELECT $7, f.id::text, f.key, f.attempts, clock_timestamp() + f.wait * interval '1 microsecond', f.error, f.dead FROM f
ON CONFLICT (outbox, record_id) DO UPDATE SET attempts = excluded.attempts, next_attempt_at = excluded.next_attempt_at, last_error = excluded.last_error, dead = excluded.dead
