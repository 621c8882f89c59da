WITH gone AS (DELETE FROM "postrider_outbox_troubles" AS c
WHERE NOT EXISTS (SELECT FROM "postrider_outbox" AS o WHERE c."position" = o."position" AND c."event_id" IS NOT DISTINCT FROM o."event_id")
AND EXISTS (SELECT FROM "postrider_outbox_troubles" AS c JOIN "postrider_outbox" AS o ON c."position" = o."position" AND NOT (c."position" = o."position" AND c."event_id" IS NOT DISTINCT FROM o."event_id")) RETURNING c.*)
INSERT INTO "postrider_outbox_troubles" ("position", "type", "topic", "key", "payload", "headers", "created_at", attempts, last_error, next_attempt_at, dead)
SELECT row_number() OVER (ORDER BY "position") - count(*) OVER () - 1, "type", "topic", "key", "payload", "headers", "created_at", attempts, last_error, next_attempt_at, dead FROM gone
