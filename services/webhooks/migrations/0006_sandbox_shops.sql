-- fits: 0.1.0
-- Sandbox shops: each delivery of theirs says so in a header. All other shops are live.
create table sandbox_shops (
  shop_id    bigint primary key check (shop_id between 1 and 9007199254740991),
  created_at timestamptz not null default now()
);
