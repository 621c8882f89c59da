INSERT INTO "outbox_events" ("id", "event_type", "aggregate_id", "version", "payload", "metadata", "created_at")
SELECT u.v1::uuid, u.v2, u.v3, u.v4::integer, u.v5::jsonb, u.v6::jsonb, (SELECT clock_timestamp()) + (u.n - 1) * interval '1 microsecond' FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[]) WITH ORDINALITY AS u(v1, v2, v3, v4, v5, v6, n) ORDER BY u.n
ON CONFLICT DO NOTHING RETURNING "id"::text
