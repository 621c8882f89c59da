WITH moved AS (UPDATE "postrider_outbox_stream" AS s SET version = s.version + 1, position = 42, from_snapshot = '3:9:4,5', from_low = 30, to_snapshot = '12:12:', to_low = 40, to_high = 50, next_low = 60, system = 'it''s', timeline = '00000001', updated_at = now()
WHERE s.grp = 0 AND s.version = 7 AND s.epoch = 1 RETURNING 1)
SELECT CASE count(*) WHEN 1 THEN 0 ELSE (count(*) || ' rows of group 0 found')::int4 END FROM moved;
WITH moved AS (UPDATE "postrider_outbox_stream" AS s SET version = s.version + 1, position = 42, from_snapshot = '3:9:4,5', from_low = 30, to_snapshot = NULL, to_low = 40, to_high = 50, next_low = 60, system = 'it''s', timeline = '00000001', updated_at = now()
WHERE s.grp = 1 AND s.version = 7 AND s.epoch = 1 RETURNING 1)
SELECT CASE count(*) WHEN 1 THEN 0 ELSE (count(*) || ' rows of group 1 found')::int4 END FROM moved
