-- The revision counts the changes of a product, from 1: who has seen a higher one passes over a lower one.
CREATE TABLE IF NOT EXISTS products (
  id text PRIMARY KEY,
  name text NOT NULL,
  description text NOT NULL,
  price bigint NOT NULL CHECK (price >= 0),
  revision integer NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now()
);
