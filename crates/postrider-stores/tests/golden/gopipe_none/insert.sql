INSERT INTO "outbox" ("event_type", "topic", "data", "attributes", "created_at")
SELECT u.v1, u.v2, u.v3::jsonb, u.v4::jsonb, (SELECT clock_timestamp()) + (u.n - 1) * interval '1 microsecond' FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) WITH ORDINALITY AS u(v1, v2, v3, v4, n) ORDER BY u.n
ON CONFLICT DO NOTHING RETURNING "attributes"::jsonb ->> 'id'
