-- fits: 0.1.0
-- A shop may be connected to its store at Shopify, instead of an endpoint.
alter table commerce_connections
  drop constraint commerce_connections_adapter_check,
  alter column url drop not null,
  add column shop_domain text unique check (shop_domain ~ '^[a-z0-9][a-z0-9-]{0,59}[.]myshopify[.]com$'),
  -- The scopes that the merchant granted, separated by commas.
  add column scopes text not null default '' check (char_length(scopes) <= 4000),
  -- When the merchant removed the app. Until it is installed again, the shop has no token.
  add column uninstalled_at timestamptz(3),
  add constraint commerce_connections_adapter check (
    case adapter
      when 'http' then url is not null and shop_domain is null
      when 'shopify' then url is null and shop_domain is not null
      else false
    end);

-- The offline access token of a store, encrypted with COMMERCE_KEYRING.
create table shopify_tokens (
  shop_id          public_id primary key references commerce_connections (shop_id) on delete cascade,
  key_id           text not null check (char_length(key_id) between 1 and 50),
  sealed           bytea not null,
  created_at       timestamptz(3) not null default now()
);

-- The newest install link of a shop, and the attempt that it began. Links, states and browsers are stored as SHA-256.
create table shopify_installs (
  shop_id          public_id primary key,
  shop_domain      text not null check (char_length(shop_domain) <= 80),
  link_hash        bytea not null unique,
  expires_at       timestamptz not null,
  -- Null until the link is opened. Opening it again replaces both.
  state_hash       bytea unique,
  browser_hash     bytea,
  -- When Shopify redirected the browser back with this state. A state is used once.
  used_at          timestamptz,
  connected_at     timestamptz
);
