WITH p AS MATERIALIZED (SELECT s.* FROM generate_series(0, (SELECT max(m.groups) - 1 FROM "postrider_outbox_stream" AS m)) AS g(grp) CROSS JOIN LATERAL (SELECT * FROM "postrider_outbox_stream" AS s WHERE s.grp = g.grp ORDER BY s.version DESC LIMIT 1) AS s), unread AS (
SELECT o."created_at" AS made FROM "postrider_outbox" AS o JOIN p ON (hashtext(coalesce(o."key"::text, o."position"::text)) & 2147483647) % 32 % p.groups = p.grp
WHERE o."position" > (SELECT min(from_low) FROM p) AND o."xid" >= pg_snapshot_xmax(p.from_snapshot) AND NOT (pg_visible_in_snapshot(o."xid", p.from_snapshot) OR p.to_snapshot IS NOT NULL AND o."position" <= p.position AND pg_visible_in_snapshot(o."xid", p.to_snapshot))
UNION ALL
SELECT o."created_at" FROM p CROSS JOIN LATERAL pg_snapshot_xip(p.from_snapshot) AS x(xid) CROSS JOIN LATERAL (SELECT * FROM "postrider_outbox" AS o WHERE o."xid" = x.xid OFFSET 0) AS o WHERE (hashtext(coalesce(o."key"::text, o."position"::text)) & 2147483647) % 32 % p.groups = p.grp AND NOT (pg_visible_in_snapshot(o."xid", p.from_snapshot) OR p.to_snapshot IS NOT NULL AND o."position" <= p.position AND pg_visible_in_snapshot(o."xid", p.to_snapshot))
UNION ALL SELECT o."created_at" FROM "postrider_outbox_troubles" AS o WHERE NOT o.dead)
SELECT count(*) AS pending, CASE WHEN min(made) IS NOT NULL THEN (extract(epoch FROM clock_timestamp() - least(greatest(min(made), '0001-01-01 00:00:00+00'), clock_timestamp())) * 1000000)::int8 END AS oldest,
(SELECT count(*) FROM "postrider_outbox_troubles" AS o WHERE o.dead) AS dead FROM unread
