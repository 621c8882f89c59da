UPDATE "outbox_events" AS o SET "processed" = true, "processed_at" = clock_timestamp(), "error_message" = NULL
WHERE o."id" = ANY($1::uuid[]) AND CASE WHEN o."processed" = false THEN true END
