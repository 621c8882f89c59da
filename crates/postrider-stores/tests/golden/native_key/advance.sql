UPDATE "postrider_outbox_stream" AS s SET version = s.version + 1, position = f.position, from_snapshot = f.since::pg_snapshot, from_low = f.since_low, to_snapshot = f.upto::pg_snapshot, to_low = f.upto_low, to_high = f.upto_high, next_low = $10, system = $11, timeline = $12, updated_at = now()
FROM unnest($1::int4[], $2::int8[], $3::int8[], $4::int8[], $5::text[], $6::int8[], $7::text[], $8::int8[], $9::int8[]) AS f(grp, version, epoch, position, since, since_low, upto, upto_low, upto_high)
WHERE s.grp = f.grp AND s.version = f.version AND s.epoch = f.epoch
