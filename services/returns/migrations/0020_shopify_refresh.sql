-- fits: 0.1.0
-- An offline token of Shopify may expire. Then a refresh token gets the next pair.
alter table shopify_tokens
  -- Null for a token that does not expire.
  add column expires_at timestamptz(3),
  -- The refresh token, encrypted with COMMERCE_KEYRING.
  add column refresh_key_id text check (char_length(refresh_key_id) between 1 and 50),
  add column refresh_sealed bytea,
  -- When this pair was stored.
  add column refreshed_at timestamptz(3) not null default now(),
  -- Until then one process refreshes, or nobody asks again after a failure.
  add column refreshing_until timestamptz(3),
  -- Since when Shopify refuses to refresh: the merchant must install the app again.
  add column refused_at timestamptz(3),
  -- Makes the codes of gift cards, encrypted. Null: the token does, which does not change then.
  add column code_key_id text check (char_length(code_key_id) between 1 and 50),
  add column code_sealed bytea,
  add constraint shopify_tokens_refresh check (num_nulls(expires_at, refresh_key_id, refresh_sealed) in (0, 3)),
  add constraint shopify_tokens_code check (num_nulls(code_key_id, code_sealed) in (0, 2));
create index shopify_tokens_by_refresh on shopify_tokens (refreshed_at) where refresh_sealed is not null;
