-- A cart that was made with a caller's key: a repeat is answered with it. The hash tells a repeat from
-- a key that is used for something else.
alter table carts
  add column idempotency_key text check (char_length(idempotency_key) between 1 and 200),
  add column request_hash bytea check (length(request_hash) = 32),
  add constraint carts_key_hashed check ((idempotency_key is null) = (request_hash is null));

create unique index carts_key_once on carts (shop_id, idempotency_key)
  where idempotency_key is not null;
