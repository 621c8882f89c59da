CREATE TABLE IF NOT EXISTS stock (
  product_id text PRIMARY KEY,
  quantity bigint NOT NULL CHECK (quantity >= 0)
);
-- What an order did to the stock of a product, by '<orderId>:<productId>': it is never done twice.
CREATE TABLE IF NOT EXISTS movements (
  movement_id text PRIMARY KEY,
  order_id uuid NOT NULL,
  product_id text NOT NULL,
  quantity integer NOT NULL CHECK (quantity > 0),
  status text NOT NULL CHECK (status IN ('RESERVED', 'REJECTED', 'RELEASED')),
  created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX IF NOT EXISTS movements_of_order ON movements (order_id);
