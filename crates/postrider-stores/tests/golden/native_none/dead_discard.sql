WITH c AS (DELETE FROM "postrider_outbox_troubles" AS o WHERE o."position" = ANY($1::int8[]) RETURNING o.*)
DELETE FROM "postrider_outbox" AS o USING c WHERE c."position" = o."position" AND c."event_id" IS NOT DISTINCT FROM o."event_id"
