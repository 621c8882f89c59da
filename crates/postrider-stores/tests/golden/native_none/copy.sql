INSERT INTO "postrider_outbox_troubles" AS c ("position", "type", "topic", "key", "payload", "headers", "created_at", attempts, last_error, next_attempt_at, dead)
SELECT o."position", o."type", o."topic", o."key", o."payload", o."headers", o."created_at", f.attempts, f.error, clock_timestamp() + f.wait * interval '1 microsecond', f.dead FROM unnest($1::int8[], $2::int4[], $3::text[], $4::int8[], $5::bool[]) AS f(position, attempts, error, wait, dead)
JOIN "postrider_outbox" AS o ON o."position" = f.position
ON CONFLICT ("position") DO UPDATE SET attempts = greatest(c.attempts, excluded.attempts), last_error = coalesce(excluded.last_error, c.last_error), next_attempt_at = greatest(c.next_attempt_at, excluded.next_attempt_at), dead = c.dead OR excluded.dead
WHERE c."position" = excluded."position" AND c."event_id" IS NOT DISTINCT FROM excluded."event_id"
