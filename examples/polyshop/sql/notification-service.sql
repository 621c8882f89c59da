-- A mail, by the id that it carries: it is PENDING while it is handed over, and no mail that was SENT is sent again.
CREATE TABLE IF NOT EXISTS notifications (
  notification_id text PRIMARY KEY,
  event_id uuid NOT NULL,
  kind text NOT NULL CHECK (kind IN ('confirmation', 'receipt')),
  order_id uuid NOT NULL,
  user_id text NOT NULL,
  sent_at timestamptz NOT NULL DEFAULT now()
);
-- The service in Rust writes neither: for it, a mail that is written down is sent.
ALTER TABLE notifications
  ADD COLUMN IF NOT EXISTS status text NOT NULL DEFAULT 'SENT' CHECK (status IN ('PENDING', 'SENT')),
  ADD COLUMN IF NOT EXISTS recipient text;
-- Addresses, as auth.user.registered.v1 tells them.
CREATE TABLE IF NOT EXISTS recipients (
  user_id text PRIMARY KEY,
  email text NOT NULL
);
