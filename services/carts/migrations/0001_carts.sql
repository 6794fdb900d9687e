-- Entry n is variant_ids[n] and object_texts[n]: the JSON object as it was sent, empty for a bare id.
create table carts (
  shop_id      bigint not null check (shop_id between 1 and 9007199254740991),
  token        text not null check (token ~ '^[A-Za-z0-9_-]{43}$'),
  variant_ids  bigint[] not null check (
    cardinality(variant_ids) between 1 and 500
    and array_position(variant_ids, null) is null
    and 1 <= all (variant_ids) and 9007199254740991 >= all (variant_ids)
  ),
  object_texts text[] not null,
  shopify      text,
  shopify_null boolean not null,
  created_at   timestamptz not null default now(),
  primary key (shop_id, token),
  constraint carts_entries_paired check (cardinality(object_texts) = cardinality(variant_ids)),
  constraint carts_shopify_once check (shopify is null or not shopify_null)
);

create index carts_by_age on carts (created_at);
