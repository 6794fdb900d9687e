-- fits: 0.1.0
-- Exhausted deliveries of each subscription that no `delivery.exhausted` event has counted yet. A subscription has at
-- most one event an hour, however many of its deliveries are exhausted.
create table exhausted_deliveries (
  shop_id         bigint not null check (shop_id between 1 and 9007199254740991),
  subscription_id bigint not null,
  deliveries      integer not null check (deliveries >= 0),
  -- Error of the last attempt of the last of them.
  last_error      text not null check (char_length(last_error) <= 1000),
  -- When the last event was published; null before the first.
  published_at    timestamptz,
  primary key (shop_id, subscription_id),
  constraint exhausted_deliveries_subscription foreign key (shop_id, subscription_id)
    references subscriptions (shop_id, id) on delete cascade
);
create index exhausted_deliveries_due on exhausted_deliveries (published_at) where deliveries > 0;
