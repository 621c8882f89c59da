WITH p AS MATERIALIZED (
SELECT s.*, w.known, coalesce(s.to_snapshot, pg_current_snapshot()) AS upto,
  CASE WHEN s.to_snapshot IS NULL THEN s.next_low ELSE s.to_low END AS upto_low,
  CASE WHEN s.to_snapshot IS NULL THEN q.last_value - CASE WHEN q.is_called THEN 0 ELSE 1 END ELSE s.to_high END AS upto_high
FROM unnest($1::int4[], $3::int8[]) AS w(grp, known) CROSS JOIN "postrider_outbox_position" AS q
CROSS JOIN LATERAL (SELECT * FROM "postrider_outbox_stream" AS s WHERE s.grp = w.grp ORDER BY s.version DESC LIMIT 1) AS s)
SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, p.grp, concat_ws(' ', p.version, p.epoch, p.position, p.from_low, p.upto_low, p.upto_high, p.to_snapshot IS NULL, greatest(pg_snapshot_xmax(p.from_snapshot), pg_snapshot_xmax(p.upto)) > pg_snapshot_xmax(pg_current_snapshot()), coalesce(p.system, '-'), p.timeline, p.from_snapshot, p.upto) AS progress FROM p
UNION ALL
SELECT c0, c1, c2, c3, c4, c5, c6, c7, p.grp, NULL FROM p CROSS JOIN LATERAL (
SELECT u.* FROM (
(SELECT o."position" AS c0, o."event_id"::text AS c1, o."type" AS c2, o."topic" AS c3, o."key" AS c4, o."payload" AS c5, o."headers" AS c6, o."created_at" AS c7 FROM "postrider_outbox" AS o
WHERE p.version <> p.known AND o."position" > greatest(p.position, p.from_low) AND o."position" <= p.upto_high
AND o."xid" >= pg_snapshot_xmax(p.from_snapshot) AND pg_visible_in_snapshot(o."xid", p.upto) AND (hashtext(o."position"::text) & 2147483647) % 32 % p.groups = p.grp
ORDER BY o."position" LIMIT $2)
UNION ALL
SELECT b.* FROM pg_snapshot_xip(p.from_snapshot) AS x(xid) CROSS JOIN LATERAL (
SELECT o."position" AS c0, o."event_id"::text AS c1, o."type" AS c2, o."topic" AS c3, o."key" AS c4, o."payload" AS c5, o."headers" AS c6, o."created_at" AS c7 FROM "postrider_outbox" AS o
WHERE p.version <> p.known AND o."xid" = x.xid AND o."position" > p.position
AND pg_visible_in_snapshot(x.xid, p.upto) AND (hashtext(o."position"::text) & 2147483647) % 32 % p.groups = p.grp
ORDER BY o."position" LIMIT $2) AS b
) AS u ORDER BY u.c0 LIMIT $2) AS r
