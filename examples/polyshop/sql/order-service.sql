-- PLACED until the order is paid and all of its items are reserved (COMPLETED), or one of them cannot be (CANCELLED).
CREATE TABLE IF NOT EXISTS orders (
  id uuid PRIMARY KEY,
  user_id text NOT NULL,
  total_amount bigint NOT NULL,
  status text NOT NULL DEFAULT 'PLACED' CHECK (status IN ('PLACED', 'COMPLETED', 'CANCELLED')),
  paid boolean NOT NULL DEFAULT false,
  created_at timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE IF NOT EXISTS order_items (
  order_id uuid NOT NULL REFERENCES orders,
  product_id text NOT NULL,
  quantity integer NOT NULL CHECK (quantity > 0),
  price bigint NOT NULL CHECK (price >= 0),
  reserved boolean NOT NULL DEFAULT false,
  PRIMARY KEY (order_id, product_id)
);
