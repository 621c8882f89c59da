SELECT o."key"::text, count(*) FROM "postrider_outbox_troubles" AS o WHERE o."key" = ANY($1::text[]) GROUP BY 1
