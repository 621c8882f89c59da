WITH found AS MATERIALIZED (
SELECT o."id" AS id FROM "postrider_troubles" AS t JOIN "outbox_events" AS o ON o."id" = t.record_id::uuid WHERE t.outbox = $2 AND t.dead AND o."processed" = true AND o."error_message" IS NOT NULL AND o."id" = ANY($1::uuid[]) FOR UPDATE OF o),
forgotten AS (
DELETE FROM "postrider_troubles" AS t USING found WHERE t.outbox = $2 AND t.record_id::uuid = found.id)
DELETE FROM "outbox_events" AS o USING found WHERE o."id" = found.id
