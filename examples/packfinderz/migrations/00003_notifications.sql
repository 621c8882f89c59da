-- What the compliance consumer writes.

-- +goose Up
CREATE TABLE notifications (
  id         uuid PRIMARY KEY,
  type       text NOT NULL,
  audience   text NOT NULL CHECK (audience IN ('admins', 'store')),
  store_id   uuid NOT NULL,
  license_id uuid NOT NULL,
  reason     text,
  message    text NOT NULL,
  event_id   uuid NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  -- What Redis has forgotten is still not notified of twice.
  UNIQUE (type, event_id)
);

-- +goose Down
DROP TABLE notifications;
