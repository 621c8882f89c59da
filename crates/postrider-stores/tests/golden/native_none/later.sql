SELECT o."position" AS c0, o."event_id"::text AS c1, o."type" AS c2, o."topic" AS c3, o."key" AS c4, o."payload" AS c5, o."headers" AS c6, o."created_at" AS c7 FROM "postrider_outbox_1" AS o
WHERE o."position" > $1::int8 AND o."position" <= $2::int8
AND o."xid" >= (SELECT $3::text::xid8) AND pg_visible_in_snapshot(o."xid", (SELECT $4::text::pg_snapshot))
AND (hashtext(o."position"::text) & 2147483647) % 32 % $6::int4 = $5::int4
ORDER BY o."position" LIMIT $7::int8
