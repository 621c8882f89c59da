INSERT INTO "postrider_troubles" (outbox, record_id, key, attempts, next_attempt_at, last_error, dead)
SELECT $7, CAST(f.id AS TEXT), f.key, f.attempts, ($30 + f.wait), f.error, f.dead FROM (SELECT r.value ->> 0 AS id, r.value ->> 1 AS attempts, r.value ->> 2 AS error, r.value ->> 3 AS wait, r.value ->> 4 AS dead, r.value ->> 5 AS key FROM json_each($1) AS r) AS f WHERE true
ON CONFLICT (outbox, record_id) DO UPDATE SET attempts = excluded.attempts, next_attempt_at = excluded.next_attempt_at, last_error = excluded.last_error, dead = excluded.dead
