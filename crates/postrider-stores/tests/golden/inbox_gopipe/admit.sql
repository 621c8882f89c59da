INSERT INTO "processed_messages" ("message_id", "created_at", "subscriber")
SELECT u.v1, now(), $2::text FROM unnest($1::text[]) AS u(v1) ORDER BY u.v1
ON CONFLICT ("subscriber", "message_id") DO NOTHING RETURNING "message_id"::text
