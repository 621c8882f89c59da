UPDATE "outbox" AS o SET "published" = true
WHERE o."id" = ANY($1::int8[]) AND CASE WHEN o."published" = false THEN true END
