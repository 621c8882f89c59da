UPDATE "outbox" AS o SET "status" = f.status::text, "next_attempt_at" = now() + f.wait * interval '1 microsecond', "retry_count" = coalesce(f.attempts, o."retry_count"), "last_error" = coalesce(f.error, o."last_error")
FROM unnest($1::uuid[], $3::text[], $4::int4[], $5::int8[], $6::text[]) AS f(id, status, attempts, wait, error)
WHERE o."id" = f.id AND o."status" = 'publishing' AND o."last_attempt_at" = $2
