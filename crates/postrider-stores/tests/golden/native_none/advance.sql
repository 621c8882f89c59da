WITH moved AS (UPDATE "postrider_outbox_stream" AS s SET version = s.version + 1, position = f.position, from_snapshot = f.since, from_low = f.since_low, to_snapshot = f.upto, to_low = f.upto_low, to_high = f.upto_high, next_low = 60, system = 'it''s', timeline = '00000001', updated_at = now()
FROM (VALUES (0, 7::int8, 1::int8, 42::int8, '3:9:4,5'::pg_snapshot, 30::int8, '12:12:'::pg_snapshot, 40::int8, 50::int8), (1, 7::int8, 1::int8, 42::int8, '3:9:4,5'::pg_snapshot, 30::int8, NULL::pg_snapshot, 40::int8, 50::int8)) AS f(grp, version, epoch, position, since, since_low, upto, upto_low, upto_high)
WHERE s.grp = f.grp AND s.version = f.version AND s.epoch = f.epoch RETURNING 1)
SELECT CASE count(*) WHEN 2 THEN 0 ELSE (count(*) || ' of 2 groups found')::int4 END FROM moved
