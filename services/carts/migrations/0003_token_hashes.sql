-- Whoever knows a cart's token may read the cart, so only its SHA-256 is kept (base64url, 43 characters like
-- the token itself). False for rows that a process of the release before inserts while this one is rolled
-- out; the purge hashes them an hour later.
alter table carts add column token_hashed boolean not null default false;

-- A repeat with a key is answered with the token, which can no longer be told from its hash: the keys of
-- carts made before are forgotten, and a late repeat makes another cart.
update carts
   set token = rtrim(translate(encode(sha256(convert_to(token, 'UTF8')), 'base64'), '+/', '-_'), '='),
       token_hashed = true, idempotency_key = null, request_hash = null;

create index carts_unhashed on carts (created_at) where not token_hashed;
