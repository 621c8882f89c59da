DELETE FROM "outbox_events" AS o WHERE o."id" = ANY($1::uuid[]) AND o."published_at" IS NULL AND o."attempt_count" > 0 AND o."attempt_count" >= 25
