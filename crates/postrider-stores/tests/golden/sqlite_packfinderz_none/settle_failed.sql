UPDATE "outbox_events" AS o SET "attempt_count" = f.attempts, "last_error" = coalesce(f.error, o."last_error")
FROM (SELECT r.value ->> 0 AS id, r.value ->> 1 AS attempts, r.value ->> 2 AS error FROM json_each($1) AS r) AS f
WHERE o."id" = f.id AND o."published_at" IS NULL
