INSERT INTO "a ""b"""."c; --" ("event_id", "source", "processed_at", "who ""is"" it")
SELECT u.v1::uuid, u.v2, now(), $3::text::word FROM unnest($1::text[], $2::text[]) AS u(v1, v2) ORDER BY u.v1
ON CONFLICT ("who ""is"" it", "event_id") DO NOTHING RETURNING "event_id"::text
