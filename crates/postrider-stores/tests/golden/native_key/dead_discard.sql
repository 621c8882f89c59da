WITH copies AS (DELETE FROM "postrider_outbox_troubles" AS o WHERE o."position" = ANY($1::int8[]))
DELETE FROM "postrider_outbox" AS o WHERE o."position" = ANY($1::int8[])
