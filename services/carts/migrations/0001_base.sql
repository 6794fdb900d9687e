-- fits: 1.0.0
-- Carts of shoppers, until a return is submitted from them. Entry n is variant_ids[n] and object_texts[n]: the JSON
-- object as it was sent, empty for a bare id.
create table carts (
  shop_id         bigint not null check (shop_id between 1 and 9007199254740991),
  -- SHA-256 of the token, base64url: everybody who knows the token may read the cart.
  token_hash      text not null check (token_hash ~ '^[A-Za-z0-9_-]{43}$'),
  variant_ids     bigint[] not null check (
    cardinality(variant_ids) between 1 and 500
    and array_position(variant_ids, null) is null
    and 1 <= all (variant_ids) and 9007199254740991 >= all (variant_ids)
  ),
  object_texts    text[] not null,
  shopify         text,
  shopify_null    boolean not null,
  -- A repeat with the key of a cart returns this cart. The hash tells a repeat from another request with the same key.
  idempotency_key text check (char_length(idempotency_key) between 1 and 200),
  request_hash    bytea check (length(request_hash) = 32),
  created_at      timestamptz not null default now(),
  primary key (shop_id, token_hash),
  constraint carts_entries_paired check (cardinality(object_texts) = cardinality(variant_ids)),
  constraint carts_shopify_once check (shopify is null or not shopify_null),
  constraint carts_key_hashed check ((idempotency_key is null) = (request_hash is null))
);

create unique index carts_key_once on carts (shop_id, idempotency_key) where idempotency_key is not null;
-- For the purge of carts after 30 days.
create index carts_by_age on carts (created_at);
