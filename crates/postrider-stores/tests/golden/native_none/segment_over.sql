SELECT coalesce((SELECT o."created_at" <= clock_timestamp() + -$1::int8 * interval '1 microsecond' FROM "postrider_outbox_1" AS o ORDER BY o."position" DESC LIMIT 1), false)
AND NOT EXISTS (SELECT FROM (SELECT s.* FROM generate_series(0, (SELECT max(m.groups) - 1 FROM "postrider_outbox_stream" AS m)) AS g(grp) CROSS JOIN LATERAL (SELECT * FROM "postrider_outbox_stream" AS s WHERE s.grp = g.grp ORDER BY s.version DESC LIMIT 1) AS s) AS p CROSS JOIN "postrider_outbox_1" AS o
  WHERE o."xid" >= pg_snapshot_xmin(p.from_snapshot) AND (hashtext(coalesce(o."key"::text, o."position"::text)) & 2147483647) % 32 % p.groups = p.grp
  AND NOT pg_visible_in_snapshot(o."xid", p.from_snapshot))
AND EXISTS (SELECT FROM "postrider_outbox_stream")
AND (SELECT (q.last_value >> 32) % 8 <> 1 FROM "postrider_outbox_position" AS q)
