UPDATE "outbox_events" AS o SET "error_message" = substr('resent ' || strftime('%Y-%m-%d %H:%M:%fZ', $30 / 1000000.0, 'unixepoch') || coalesce(': ' || o."error_message", ''), 1, 1024), "processed" = false WHERE o."id" IN (SELECT value FROM json_each($1));
UPDATE "postrider_troubles" AS t SET attempts = 0, dead = false, next_attempt_at = $30, last_error = substr('resent ' || strftime('%Y-%m-%d %H:%M:%fZ', $30 / 1000000.0, 'unixepoch') || coalesce(': ' || t.last_error, ''), 1, 1024)
WHERE t.outbox = $1 AND t.id_token IN (SELECT ('i' || v.x) FROM (SELECT value AS x FROM json_each($2)) AS v)
