WITH found AS MATERIALIZED (
SELECT o."id" AS id FROM "postrider_troubles" AS t JOIN "outbox" AS o ON o."id" = t.record_id::bigint WHERE t.outbox = $2 AND t.dead AND o."published" = false AND o."id" = ANY($1::int8[]) FOR UPDATE OF o),
forgotten AS (
DELETE FROM "postrider_troubles" AS t USING found WHERE t.outbox = $2 AND t.record_id::bigint = found.id)
DELETE FROM "outbox" AS o USING found WHERE o."id" = found.id
