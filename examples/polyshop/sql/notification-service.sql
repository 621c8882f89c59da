-- What was sent, by the id that the mail carries: the same mail is never written down twice.
CREATE TABLE IF NOT EXISTS notifications (
  notification_id text PRIMARY KEY,
  event_id uuid NOT NULL,
  kind text NOT NULL CHECK (kind IN ('confirmation', 'receipt')),
  order_id uuid NOT NULL,
  user_id text NOT NULL,
  sent_at timestamptz NOT NULL DEFAULT now()
);
