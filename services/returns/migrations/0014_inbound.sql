-- fits: 0.1.0
-- What a shop's commerce provider says of its orders.
create table inbound_orders (
  shop_id             public_id not null,
  provider_order_id   public_id not null,
  name                text not null check (char_length(name) <= 191),
  cancelled_at        timestamptz(3),
  -- The provider's time of this state. An older state changes nothing.
  provider_updated_at timestamptz(3) not null,
  received_at         timestamptz(3) not null default now(),
  primary key (shop_id, provider_order_id)
);

-- A line that the newest state of the order does not have is kept with 0 units.
create table inbound_order_lines (
  shop_id               public_id not null,
  provider_order_id     public_id not null,
  provider_line_item_id public_id not null,
  quantity              bigint not null check (quantity between 0 and 9007199254740991),
  primary key (shop_id, provider_order_id, provider_line_item_id),
  foreign key (shop_id, provider_order_id) references inbound_orders on delete cascade
);

-- What was refunded at the provider, by anyone. A refund that processing requested is here, too, when the provider
-- reports it: it is found by its key, or by the provider's id in processing_outcomes.
create table inbound_refunds (
  shop_id             public_id not null,
  provider_refund_id  text not null check (char_length(provider_refund_id) between 1 and 191),
  provider_order_id   public_id not null,
  -- Empty when the provider reported none.
  key                 text not null check (char_length(key) <= 200),
  amount              amount not null,
  currency            currency_code not null,
  refunded_at         timestamptz(3) not null,
  received_at         timestamptz(3) not null default now(),
  primary key (shop_id, provider_refund_id)
);
create index inbound_refunds_by_order on inbound_refunds (shop_id, provider_order_id);

create table inbound_refund_lines (
  shop_id               public_id not null,
  provider_refund_id    text not null,
  provider_line_item_id public_id not null,
  quantity              bigint not null check (quantity between 0 and 9007199254740991),
  amount                amount not null,
  primary key (shop_id, provider_refund_id, provider_line_item_id),
  foreign key (shop_id, provider_refund_id) references inbound_refunds on delete cascade
);

-- Whether a refund at the provider is one that processing requested.
create index processing_outcomes_refunds on processing_outcomes (shop_id, provider_id) where kind = 'refund';

-- Events that were recorded: a repeated one changes nothing. Kept for a week.
create table inbound_events (
  shop_id     public_id not null,
  webhook_id  text not null check (char_length(webhook_id) between 1 and 200),
  received_at timestamptz(3) not null default now(),
  primary key (shop_id, webhook_id)
);
create index inbound_events_by_age on inbound_events (received_at);
