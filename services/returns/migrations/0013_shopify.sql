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

-- Webhooks of Shopify that were handled, so that a repeated one is not handled again. Kept for a week; Shopify repeats
-- for some hours.
create table shopify_webhooks (
  shop_domain      text not null check (char_length(shop_domain) <= 80),
  topic            text not null check (char_length(topic) <= 100),
  webhook_id       text not null check (char_length(webhook_id) <= 100),
  received_at      timestamptz not null default now(),
  primary key (shop_domain, topic, webhook_id)
);
create index shopify_webhooks_by_age on shopify_webhooks (received_at);

-- Redactions that Shopify requested and that are not complete.
create table shopify_redactions (
  id               bigint primary key generated always as identity check (id between 1 and 9007199254740991),
  shop_id          public_id not null,
  -- Whose data to remove: of this e-mail address, and of these orders (the provider's ids). Both null: of the whole shop.
  email            text check (char_length(email) <= 320),
  order_ids        bigint[],
  received_at      timestamptz not null default now(),
  -- When a process last began with it.
  begun_at         timestamptz
);

-- Customers who asked for their data. The operator answers the merchant. Ids of Shopify, no personal data.
create table shopify_data_requests (
  shop_id          public_id not null,
  id               bigint not null generated always as identity check (id between 1 and 9007199254740991),
  request_id       public_id not null,
  customer_id      public_id not null,
  order_ids        bigint[] not null,
  received_at      timestamptz(3) not null default now(),
  primary key (shop_id, id)
);
create index shopify_data_requests_by_age on shopify_data_requests (received_at);
