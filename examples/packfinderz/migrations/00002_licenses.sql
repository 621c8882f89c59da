-- The domain.

-- +goose Up
CREATE TABLE licenses (
  id         uuid PRIMARY KEY,
  store_id   uuid NOT NULL,
  status     text NOT NULL CHECK (status IN ('pending', 'verified', 'rejected')),
  reason     text,
  updated_at timestamptz NOT NULL DEFAULT now()
);

-- +goose Down
DROP TABLE licenses;
