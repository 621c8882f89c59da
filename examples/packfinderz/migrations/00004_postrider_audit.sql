-- Who resent or discarded which row with `postrider dead`, as Postrider writes it. The publisher does without.

-- +goose Up
CREATE TABLE postrider_audit (
  id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at        timestamptz NOT NULL DEFAULT clock_timestamp(),
  who       text NOT NULL,
  action    text NOT NULL,
  outbox    text NOT NULL,
  record_id text,
  detail    text
);
CREATE INDEX postrider_audit_record ON postrider_audit (outbox, record_id);

-- +goose Down
DROP TABLE postrider_audit;
