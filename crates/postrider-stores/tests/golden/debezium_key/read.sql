WITH page AS MATERIALIZED (
SELECT o."id" AS id FROM "outbox" AS o
LEFT JOIN "postrider_troubles" AS t ON t.outbox = $1 AND o."id" = t.record_id::uuid
WHERE true
ORDER BY o."created_at", o."id" LIMIT $2)
SELECT o."id" AS c0, o."type" AS c1, o."aggregatetype" AS c2, o."aggregateid" AS c3, o."payload" AS c4, o."created_at" AS c5, coalesce(t.attempts, 0)::int8, o."created_at"::text, o."id"::text
FROM page JOIN "outbox" AS o ON o."id" = page.id
LEFT JOIN "postrider_troubles" AS t ON t.outbox = $1 AND o."id" = t.record_id::uuid
ORDER BY o."created_at", o."id"
