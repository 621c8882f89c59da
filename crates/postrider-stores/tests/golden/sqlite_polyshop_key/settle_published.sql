UPDATE "outbox_events" AS o SET "processed" = true, "processed_at" = $30, "error_message" = NULL
WHERE o."id" IN (SELECT value FROM json_each($1)) AND o."processed" = false
