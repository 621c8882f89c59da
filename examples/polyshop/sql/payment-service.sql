-- One payment an order; of amount 0 where the cancellation came first, since nothing is ever taken then.
CREATE TABLE IF NOT EXISTS payments (
  id uuid PRIMARY KEY,
  order_id uuid NOT NULL UNIQUE,
  user_id text NOT NULL,
  amount bigint NOT NULL,
  status text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now()
);
-- For tables of before there were refunds, too.
ALTER TABLE payments DROP CONSTRAINT IF EXISTS payments_status_check;
ALTER TABLE payments ADD CONSTRAINT payments_status_check
  CHECK (status IN ('INITIATED', 'SUCCESS', 'REFUNDED', 'CANCELLED'));
