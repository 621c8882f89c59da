SELECT * FROM ((SELECT o."position" AS c0, o."event_id"::text AS c1, o."type" AS c2, o."topic" AS c3, o."key" AS c4, o."payload" AS c5, o."headers" AS c6, o."created_at" AS c7 FROM "postrider_outbox_1" AS o
WHERE o."position" > $4::int8 AND o."position" <= $5::int8
AND o."xid" >= (SELECT $6::text::xid8) AND pg_visible_in_snapshot(o."xid", (SELECT $7::text::pg_snapshot))
AND ($2::int4[] IS NULL OR (hashtext(coalesce(o."key"::text, o."position"::text)) & 2147483647) % 32 % $3::int4 = ANY($2::int4[]))
ORDER BY o."position" LIMIT $1::int8)
UNION ALL
(SELECT b.* FROM unnest($8::text[]) AS x(xid) CROSS JOIN LATERAL (
SELECT o."position" AS c0, o."event_id"::text AS c1, o."type" AS c2, o."topic" AS c3, o."key" AS c4, o."payload" AS c5, o."headers" AS c6, o."created_at" AS c7 FROM "postrider_outbox" AS o
WHERE (o."xid", o."position") > (x.xid::xid8, $9::int8) AND o."xid" <= x.xid::xid8 AND o."position" <= $10::int8 AND ($2::int4[] IS NULL OR (hashtext(coalesce(o."key"::text, o."position"::text)) & 2147483647) % 32 % $3::int4 = ANY($2::int4[]))
ORDER BY o."xid", o."position" LIMIT $1::int8) AS b)) AS u ORDER BY c0 LIMIT $1::int8
