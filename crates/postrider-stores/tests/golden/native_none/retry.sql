UPDATE "postrider_outbox_troubles" AS o SET attempts = f.attempts, last_error = coalesce(f.error, o.last_error), next_attempt_at = clock_timestamp() + f.wait * interval '1 microsecond', dead = f.dead
FROM unnest($1::int8[], $2::int4[], $3::text[], $4::int8[], $5::bool[]) AS f(position, attempts, error, wait, dead) WHERE o."position" = f.position
