INSERT INTO "postrider_outbox" ("type", "topic", "key", "payload", "headers", "created_at")
SELECT u.v1, u.v2, u.v3, u.v4::jsonb, u.v5::jsonb, (SELECT clock_timestamp()) + (u.n - 1) * interval '1 microsecond' FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[]) WITH ORDINALITY AS u(v1, v2, v3, v4, v5, n) ORDER BY u.n
RETURNING "event_id"::text
