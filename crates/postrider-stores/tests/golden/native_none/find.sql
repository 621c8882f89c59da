WITH page AS MATERIALIZED (
SELECT o."position" AS id FROM (SELECT o."position", o."type", o."topic", o."key", o."payload", o."headers", o."created_at", (pg_visible_in_snapshot(o."xid", p.from_snapshot) OR p.to_snapshot IS NOT NULL AND o."position" <= p.position AND pg_visible_in_snapshot(o."xid", p.to_snapshot)) AS settled, false AS dead, 0 AS attempts, NULL::text AS last_error, NULL::timestamptz AS next_attempt_at
FROM "postrider_outbox" AS o JOIN (SELECT s.* FROM generate_series(0, (SELECT max(m.groups) - 1 FROM "postrider_outbox_stream" AS m)) AS g(grp) CROSS JOIN LATERAL (SELECT * FROM "postrider_outbox_stream" AS s WHERE s.grp = g.grp ORDER BY s.version DESC LIMIT 1) AS s) AS p ON (hashtext(coalesce(o."key"::text, o."position"::text)) & 2147483647) % 32 % p.groups = p.grp
WHERE NOT EXISTS (SELECT FROM "postrider_outbox_troubles" AS c WHERE c."position" = o."position" AND c."event_id" IS NOT DISTINCT FROM o."event_id")
UNION ALL SELECT c."position", c."type", c."topic", c."key", c."payload", c."headers", c."created_at", false, c.dead, c.attempts, c.last_error, c.next_attempt_at FROM "postrider_outbox_troubles" AS c) AS o
WHERE (NOT o.settled AND NOT o.dead AND o.attempts > 0)
AND o."position" = ANY($1::int8[])
AND o."type"::text = $2
AND o."key"::text = $3
AND o."topic"::text = $4
AND strpos(lower(o.last_error), lower($5)) > 0
AND o."created_at" >= 'epoch'::timestamptz + $6::int8 * interval '1 microsecond'
AND o."created_at" < 'epoch'::timestamptz + $7::int8 * interval '1 microsecond'
ORDER BY o."position" LIMIT $8)
SELECT o."position"::text, o."event_id"::text, NULL::text, o."type"::text, NULL::text, NULL::text, o."key"::text, o."topic"::text, CASE WHEN (o.dead) THEN 'dead' WHEN (o.settled) THEN 'published' WHEN (NOT o.settled AND NOT o.dead AND o.attempts > 0) THEN 'waiting' ELSE 'pending' END, o.attempts::int8, o.last_error, o."created_at", NULL::timestamptz, CASE WHEN (NOT o.settled AND NOT o.dead AND o.attempts > 0) THEN o.next_attempt_at END, octet_length(o."payload"::text)::int8, o."position"::text
FROM page JOIN (SELECT o."position", o."type", o."topic", o."key", o."payload", o."headers", o."created_at", (pg_visible_in_snapshot(o."xid", p.from_snapshot) OR p.to_snapshot IS NOT NULL AND o."position" <= p.position AND pg_visible_in_snapshot(o."xid", p.to_snapshot)) AS settled, false AS dead, 0 AS attempts, NULL::text AS last_error, NULL::timestamptz AS next_attempt_at
FROM "postrider_outbox" AS o JOIN (SELECT s.* FROM generate_series(0, (SELECT max(m.groups) - 1 FROM "postrider_outbox_stream" AS m)) AS g(grp) CROSS JOIN LATERAL (SELECT * FROM "postrider_outbox_stream" AS s WHERE s.grp = g.grp ORDER BY s.version DESC LIMIT 1) AS s) AS p ON (hashtext(coalesce(o."key"::text, o."position"::text)) & 2147483647) % 32 % p.groups = p.grp
WHERE NOT EXISTS (SELECT FROM "postrider_outbox_troubles" AS c WHERE c."position" = o."position" AND c."event_id" IS NOT DISTINCT FROM o."event_id")
UNION ALL SELECT c."position", c."type", c."topic", c."key", c."payload", c."headers", c."created_at", false, c.dead, c.attempts, c.last_error, c.next_attempt_at FROM "postrider_outbox_troubles" AS c) AS o ON o."position" = page.id
ORDER BY o."position"
