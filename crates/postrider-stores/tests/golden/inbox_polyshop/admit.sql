INSERT INTO "processed_events" ("event_id", "event_type", "source", "processed_at")
SELECT u.v1::uuid, u.v2, u.v3, now() FROM unnest($1::text[], $2::text[], $3::text[]) AS u(v1, v2, v3) ORDER BY u.v1
ON CONFLICT ("event_id") DO NOTHING RETURNING "event_id"::text
