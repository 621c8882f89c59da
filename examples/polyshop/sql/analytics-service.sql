CREATE TABLE IF NOT EXISTS product_sales (
  product_id text PRIMARY KEY,
  quantity bigint NOT NULL,
  revenue bigint NOT NULL
);
