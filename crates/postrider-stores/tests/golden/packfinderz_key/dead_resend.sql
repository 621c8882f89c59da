UPDATE "outbox_events" AS o SET "attempt_count" = 0, "last_error" = left('resent ' || now()::text || coalesce(': ' || o."last_error", ''), 1024) WHERE o."id" = ANY($1::uuid[])
