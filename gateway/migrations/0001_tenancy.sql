-- Shops, the people who work in them, and what may call the API in their name.

create table users (
  id         bigint generated always as identity (maxvalue 9007199254740991) primary key,
  email      text not null constraint users_email_unique unique
             constraint users_email_form check (email = lower(email) and email ~ '^[^@[:space:]]+@[^@[:space:]]+$' and char_length(email) <= 320),
  name       text constraint users_name_length check (char_length(name) between 1 and 191),
  created_at timestamptz not null default now()
);

create table shops (
  id            bigint generated always as identity (maxvalue 9007199254740991) primary key,
  name          text not null constraint shops_name_length check (char_length(name) between 1 and 191),
  currency      text not null constraint shops_currency_form check (currency ~ '^[A-Z]{3}$'),
  founder_id    bigint not null references users (id),
  created_at    timestamptz not null default now(),
  -- Null until the services have taken over the shop's settings; `shop create` run again finishes that.
  configured_at timestamptz,
  constraint shops_founder_name_unique unique (founder_id, name)
);

create table memberships (
  shop_id    bigint not null references shops (id),
  user_id    bigint not null references users (id),
  role       text not null constraint memberships_role_known
             check (role in ('owner', 'admin', 'returns_agent', 'warehouse', 'analyst', 'developer')),
  created_at timestamptz not null default now(),
  primary key (shop_id, user_id)
);
create index memberships_user on memberships (user_id);

create table api_keys (
  shop_id         bigint not null references shops (id),
  key_id          text not null constraint api_keys_key_id_unique unique
                  constraint api_keys_key_id_form check (key_id ~ '^[a-z0-9]{12}$'),
  secret_hash     bytea not null constraint api_keys_secret_hash_length check (octet_length(secret_hash) = 32),
  scopes          text[] not null constraint api_keys_scopes_known
                  check (scopes <@ array['returns', 'carts', 'developer_tools', 'destinations:read', 'destinations:write']),
  description     text not null constraint api_keys_description_length check (char_length(description) <= 191),
  rest_per_minute integer constraint api_keys_rest_per_minute_range check (rest_per_minute between 1 and 1000000),
  created_at      timestamptz not null default now(),
  last_used_at    timestamptz,
  expires_at      timestamptz,
  revoked_at      timestamptz,
  primary key (shop_id, key_id)
);

create table installations (
  shop_id    bigint not null references shops (id),
  issuer     text not null constraint installations_issuer_length check (char_length(issuer) between 1 and 2048),
  client_id  text not null constraint installations_client_id_length check (char_length(client_id) between 1 and 200),
  created_at timestamptz not null default now(),
  primary key (shop_id, issuer, client_id)
);
