-- fits: 1.0.0
-- Orders of shops with the embedded commerce provider.
create table sample_orders (
  shop_id           public_id not null,
  provider_order_id public_id not null,
  name              text not null check (char_length(name) between 1 and 191),
  -- As in an answer to `order.find`.
  body              json not null check (octet_length(body::text) <= 2097152),
  created_at        timestamptz(3) not null default now(),
  primary key (shop_id, provider_order_id)
);

create unique index sample_orders_name on sample_orders (shop_id, normal_form(name));
