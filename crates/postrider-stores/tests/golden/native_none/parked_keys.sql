SELECT o."key"::text, count(*) FROM "postrider_outbox_troubles" AS o WHERE hashtextextended(o."key" COLLATE "C", 0) = ANY(ARRAY(SELECT hashtextextended(v.x COLLATE "C", 0) FROM unnest($1::text[]) AS v(x)))
AND o."key" = ANY($1::text[]) GROUP BY 1
