-- fits: 1.0.0
-- The last check of each shop's endpoint, so that people see it while it runs and afterwards. Who made an install link.

-- The user who made the link; null for the operator. Nobody else may use it. Otherwise another merchant who follows the
-- link and agrees at Shopify would connect their store to this shop.
alter table shopify_installs add column user_id text check (char_length(user_id) between 1 and 200);

create table commerce_checks (
  shop_id     public_id primary key references commerce_connections (shop_id) on delete cascade,
  -- Of this run: another one replaces the row.
  run_id      uuid not null,
  url         text not null check (char_length(url) between 1 and 2048),
  started_at  timestamptz(3) not null default now(),
  -- The process that asks moves it on. When it has passed, nobody asks any more.
  alive_until timestamptz(3) not null,
  ended_at    timestamptz(3),
  -- For each question that was answered: its number in the proto, and what is wrong.
  results     jsonb not null default '[]' check (pg_column_size(results) <= 262144)
);
