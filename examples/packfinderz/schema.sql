-- Licenses and notifications. outbox_events comes from Postrider's packfinderz layout: `migrate print` shows all.

-- All statements are one transaction; of two migrations at once the second waits.
SELECT pg_advisory_xact_lock(hashtext('packfinderz schema'));

CREATE TABLE IF NOT EXISTS licenses (
  id         uuid PRIMARY KEY,
  store_id   uuid NOT NULL,
  status     text NOT NULL CHECK (status IN ('pending', 'verified', 'rejected')),
  reason     text,
  updated_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE IF NOT EXISTS notifications (
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
