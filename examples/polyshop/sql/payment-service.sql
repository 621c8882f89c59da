CREATE TABLE IF NOT EXISTS payments (
  id uuid PRIMARY KEY,
  order_id uuid NOT NULL UNIQUE,
  user_id text NOT NULL,
  amount bigint NOT NULL,
  status text NOT NULL CHECK (status IN ('INITIATED', 'SUCCESS')),
  created_at timestamptz NOT NULL DEFAULT now()
);
