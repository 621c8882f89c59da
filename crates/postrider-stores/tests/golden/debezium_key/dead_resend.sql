WITH found AS MATERIALIZED (
SELECT o."id" AS id FROM "postrider_troubles" AS t JOIN "outbox" AS o ON o."id" = t.record_id::uuid WHERE t.outbox = $2 AND t.dead AND o."id" = ANY($1::uuid[]) FOR UPDATE OF o)
UPDATE "postrider_troubles" AS t SET attempts = 0, dead = false, next_attempt_at = now(), last_error = left('resent ' || now()::text || coalesce(': ' || t.last_error, ''), 1024)
FROM found WHERE t.outbox = $2 AND t.record_id::uuid = found.id
