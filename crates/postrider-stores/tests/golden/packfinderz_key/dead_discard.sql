DELETE FROM "outbox_events" AS o WHERE o."id" = ANY($1::uuid[])
