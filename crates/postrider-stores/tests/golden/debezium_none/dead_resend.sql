UPDATE "postrider_troubles" AS t SET attempts = 0, dead = false, next_attempt_at = now(), last_error = left('resent ' || now()::text || coalesce(': ' || t.last_error, ''), 1024)
WHERE t.outbox = $1 AND t.id_token IN (SELECT hashtextextended(v.x COLLATE "C", 1) FROM unnest($2::text[]) AS v(x))
