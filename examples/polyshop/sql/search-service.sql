CREATE TABLE IF NOT EXISTS products (
  product_id text PRIMARY KEY,
  name text NOT NULL,
  description text NOT NULL,
  price bigint NOT NULL,
  revision bigint NOT NULL,
  words tsvector NOT NULL GENERATED ALWAYS AS
    (setweight(to_tsvector('simple', name), 'A') || to_tsvector('simple', description)) STORED
);
CREATE INDEX IF NOT EXISTS products_words ON products USING gin (words);
