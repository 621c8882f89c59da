SELECT EXISTS (SELECT FROM (SELECT s.* FROM generate_series(0, (SELECT max(m.groups) - 1 FROM "postrider_outbox_stream" AS m)) AS g(grp) CROSS JOIN LATERAL (SELECT * FROM "postrider_outbox_stream" AS s WHERE s.grp = g.grp ORDER BY s.version DESC LIMIT 1) AS s) AS p CROSS JOIN "postrider_outbox" AS o
WHERE o."xid" >= pg_snapshot_xmax(p.from_snapshot) AND o."position" <= p.from_low)
