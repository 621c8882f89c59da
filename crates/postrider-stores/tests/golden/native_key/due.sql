SELECT o."position" AS c0, o."event_id"::text AS c1, o."type" AS c2, o."topic" AS c3, o."key" AS c4, o."payload" AS c5, o."headers" AS c6, o."created_at" AS c7, o.attempts AS attempts FROM "postrider_outbox_troubles" AS o
WHERE NOT o.dead AND o.next_attempt_at <= statement_timestamp()
AND (hashtext(coalesce(o."key"::text, o."position"::text)) & 2147483647) % 32 % $3::int4 = ANY($1::int4[])
AND NOT EXISTS (SELECT FROM "postrider_outbox_troubles" AS b WHERE hashtextextended(b."key" COLLATE "C", 0) = hashtextextended(o."key" COLLATE "C", 0) AND b."key" = o."key" AND b."position" < o."position" AND (b.dead OR NOT b.dead AND b.next_attempt_at > statement_timestamp()))
ORDER BY o."position" LIMIT $2
