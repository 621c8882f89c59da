INSERT INTO "outbox_events" ("id", "event_type", "aggregate_type", "aggregate_id", "payload_json", "created_at")
SELECT u.v1::uuid, u.v2::event_type_enum, u.v3::aggregate_type_enum, u.v4::uuid, u.v5::jsonb, (SELECT clock_timestamp()) + (u.n - 1) * interval '1 microsecond' FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[]) WITH ORDINALITY AS u(v1, v2, v3, v4, v5, n) ORDER BY u.n
ON CONFLICT DO NOTHING RETURNING "id"::text
