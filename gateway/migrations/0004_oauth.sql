-- Sign-in of assistants: signing keys, grants, and what stands between a request and its tokens.

-- One row signs; replaced ones go on verifying until the last token they signed has expired.
create table oauth_keys (
  kid         text primary key constraint oauth_keys_kid_length check (char_length(kid) between 1 and 64),
  public_jwk  jsonb not null,
  -- The private key as JWK, sealed by the key of the keyring that `key_id` names.
  key_id      text not null,
  sealed      bytea not null,
  created_at  timestamptz not null default now(),
  replaced_at timestamptz
);
create unique index oauth_keys_one_signs on oauth_keys ((true)) where replaced_at is null;

-- A person let a client act in one shop. Every code, refresh token and access token belongs to a grant
-- and ends with it. The id is no secret: access tokens name it.
create table oauth_grants (
  shop_id    bigint not null references shops (id),
  id         text not null constraint oauth_grants_id_unique unique
             constraint oauth_grants_id_length check (char_length(id) between 20 and 64),
  user_id    bigint not null references users (id),
  client_id  text not null constraint oauth_grants_client_id_length check (char_length(client_id) between 1 and 2048),
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,
  revoked_at timestamptz,
  primary key (shop_id, id)
);
create index oauth_grants_user on oauth_grants (user_id);
create index oauth_grants_expires on oauth_grants (expires_at);

-- Codes, refresh tokens and sign-ins under way. The row is found by the hash of an id that only the
-- other side holds, and its content is sealed with a key made from that id: neither is to be had from here.
create table oauth_tickets (
  kind        text not null constraint oauth_tickets_kind_known
              check (kind in ('AuthorizationCode', 'RefreshToken', 'Interaction', 'SignIn', 'SignedIn')),
  id_hash     bytea not null constraint oauth_tickets_id_hash_length check (octet_length(id_hash) = 32),
  sealed      bytea not null constraint oauth_tickets_sealed_length check (octet_length(sealed) <= 65536),
  grant_id    text references oauth_grants (id) on delete cascade,
  created_at  timestamptz not null default now(),
  expires_at  timestamptz not null,
  consumed_at timestamptz,
  primary key (kind, id_hash)
);
create index oauth_tickets_grant on oauth_tickets (grant_id) where grant_id is not null;
create index oauth_tickets_expires on oauth_tickets (expires_at);
