UPDATE "outbox" AS o SET "status" = CAST(f.status AS TEXT), "next_attempt_at" = ($30 + f.wait), "retry_count" = coalesce(f.attempts, o."retry_count"), "last_error" = coalesce(f.error, o."last_error")
FROM (SELECT r.value ->> 0 AS id, r.value ->> 1 AS status, r.value ->> 2 AS attempts, r.value ->> 3 AS wait, r.value ->> 4 AS error FROM json_each($1) AS r) AS f
WHERE o."id" = f.id AND o."status" = 'publishing' AND o."last_attempt_at" = $2
