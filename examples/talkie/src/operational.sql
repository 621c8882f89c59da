-- Find events that failed or entered the dead-letter state
SELECT *
FROM outbox
WHERE status IN ('failed', 'dead_lettered')
ORDER BY next_attempt_at;

-- Inspect pending items scheduled for retry
SELECT *
FROM outbox
WHERE status = 'failed'
  AND next_attempt_at <= now();
