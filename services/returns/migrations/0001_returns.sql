-- Returns and everything their details are made of. Sums are derived when read; what is stored is
-- what was submitted, in both currencies.

-- Not negative, at most 10^12, with at most the four decimals that ISO 4217 knows.
create domain amount as numeric
  constraint amount_in_range check (value >= 0 and value <= 1000000000000 and scale(value) <= 4);
create domain currency_code as text constraint currency_code_iso check (value ~ '^[A-Z]{3}$');
-- An id that becomes a JSON number.
create domain public_id as bigint
  constraint public_id_range check (value between 1 and 9007199254740991);

create table settings (
  shop_id                  public_id primary key,
  currency                 currency_code not null,
  restock_mode             text not null default 'off' check (restock_mode in ('off', 'webhook')),
  gift_card_mode           text not null default 'provider' check (gift_card_mode in ('provider', 'external')),
  label_provider           text not null default 'own' check (label_provider in ('own', 'third_party')),
  expiry_days              integer not null default 28 check (expiry_days between 1 and 365),
  processing_retry_minutes integer not null default 15 check (processing_retry_minutes between 1 and 1440),
  parcel_length_cm         integer not null default 30 check (parcel_length_cm between 1 and 1000),
  parcel_width_cm          integer not null default 20 check (parcel_width_cm between 1 and 1000),
  parcel_height_cm         integer not null default 10 check (parcel_height_cm between 1 and 1000),
  created_at               timestamptz(3) not null default now(),
  updated_at               timestamptz(3) not null default now()
);

-- Internal ids stay far below the provider's, so that one query value can mean either.
create table orders (
  shop_id           public_id not null,
  id                bigint not null generated always as identity (maxvalue 999999999) check (id between 1 and 999999999),
  provider_order_id public_id not null,
  created_at        timestamptz(3) not null default now(),
  primary key (shop_id, id),
  constraint orders_provider_order_id_once unique (shop_id, provider_order_id)
);

create table returns (
  shop_id               public_id not null,
  id                    bigint not null generated always as identity (maxvalue 999999999) check (id between 1 and 999999999),
  revision              bigint not null default 1 check (revision > 0),
  created_at            timestamptz(3) not null,
  updated_at            timestamptz(3) not null default now(),
  edited_at             timestamptz(3),
  archived_at           timestamptz(3),
  order_id              public_id not null,
  -- As submitted with this return: another return of the order changes nothing here.
  order_name            text not null check (char_length(order_name) between 1 and 191),
  order_number          bigint not null default 0 check (order_number between 0 and 9007199254740991),
  provider_order_number bigint not null default 0 check (provider_order_number between 0 and 9007199254740991),
  customer_email        text check (char_length(customer_email) <= 320),
  customer_first_name   text check (char_length(customer_first_name) <= 191),
  customer_last_name    text check (char_length(customer_last_name) <= 191),
  customer_address      jsonb,
  state                 text not null check (state in ('open', 'review', 'closed', 'cancelled', 'expired')),
  type                  text not null check (type in ('standard', 'warranty')),
  outcome               text not null check (outcome in ('exchange', 'upsell', 'refund', 'credit', 'exchange_refund', 'exchange_credit')),
  return_method         text not null check (return_method in ('mail', 'in_store', 'drop_off', 'keep_item')),
  currency              currency_code not null,
  presentment_currency  currency_code not null,
  -- return_total repeats the sum of the lines, as the operand of the rule below; it is never answered.
  return_total                amount not null,
  shipping                    amount not null,
  shipping_tax                amount not null,
  credit_shipping             amount not null,
  return_credit               amount not null,
  handling_fee                amount not null,
  refund                      amount not null,
  presentment_return_total    amount not null,
  presentment_shipping        amount not null,
  presentment_shipping_tax    amount not null,
  presentment_credit_shipping amount not null,
  presentment_return_credit   amount not null,
  presentment_handling_fee    amount not null,
  presentment_refund          amount not null,
  destination_id        public_id,
  status_page_url       text not null default '' check (char_length(status_page_url) <= 2048),
  package_reference     text not null default '' check (char_length(package_reference) <= 191),
  flag_reasons          text[] not null default '{}',
  -- True while processing is queued or running.
  processing            boolean not null default false,
  redacted_at           timestamptz(3),
  primary key (shop_id, id),
  foreign key (shop_id, order_id) references orders (shop_id, id),
  constraint returns_refund_rule check (
    refund + return_credit + handling_fee = return_total + shipping + credit_shipping),
  constraint returns_presentment_refund_rule check (
    presentment_refund + presentment_return_credit + presentment_handling_fee
      = presentment_return_total + presentment_shipping + presentment_credit_shipping),
  constraint returns_archived_when_closed check ((state = 'closed') = (archived_at is not null)),
  constraint returns_flagged_in_review check (state = 'review' or cardinality(flag_reasons) = 0),
  constraint returns_processing_when_open check (not processing or state = 'open')
);

create index returns_by_time on returns (shop_id, created_at desc, id desc);
create index returns_by_order on returns (shop_id, order_id, created_at desc, id desc);
create index returns_by_order_name on returns (shop_id, order_name, created_at desc, id desc);
create index returns_by_email on returns (shop_id, lower(customer_email)) where customer_email is not null;

create table return_lines (
  shop_id                        public_id not null,
  id                             bigint not null generated always as identity check (id between 1 and 9007199254740991),
  return_id                      public_id not null,
  position                       integer not null check (position >= 0),
  provider_line_item_id          public_id not null,
  provider_line_item_external_id text not null default '' check (char_length(provider_line_item_external_id) <= 191),
  product_id                     bigint not null default 0 check (product_id between 0 and 9007199254740991),
  variant_id                     bigint not null default 0 check (variant_id between 0 and 9007199254740991),
  sku                            text not null default '' check (char_length(sku) <= 191),
  line_item_title                text not null default '' check (char_length(line_item_title) <= 191),
  variant_title                  text not null default '' check (char_length(variant_title) <= 191),
  -- May be made of the other two.
  title                          text not null default '' check (char_length(title) <= 400),
  image                          text not null default '' check (char_length(image) <= 2048),
  quantity                       integer not null check (quantity between 1 and 1000000),
  price                          amount not null,
  discount                       amount not null,
  tax                            amount not null,
  refund_item                    amount not null,
  refund_tax                     amount not null,
  refund_shipping                amount not null,
  refund_shipping_tax            amount not null,
  presentment_price               amount not null,
  presentment_discount            amount not null,
  presentment_tax                 amount not null,
  presentment_refund_item         amount not null,
  presentment_refund_tax          amount not null,
  presentment_refund_shipping     amount not null,
  presentment_refund_shipping_tax amount not null,
  returned_at                    timestamptz(3),
  exchange_variant               text not null default '' check (char_length(exchange_variant) <= 191),
  barcode                        text not null default '' check (char_length(barcode) <= 191),
  provider_restock_location_id   text not null default '' check (char_length(provider_restock_location_id) <= 191),
  consolidation_tracking         text not null default '' check (char_length(consolidation_tracking) <= 191),
  consolidation_destination_id   public_id,
  reason                         text not null default '' check (char_length(reason) <= 191),
  parent_reason                  text not null default '' check (char_length(parent_reason) <= 191),
  outcome                        text not null check (outcome in ('exchange', 'refund', 'credit', 'default')),
  hs_code                        text not null default '' check (char_length(hs_code) <= 191),
  country_of_origin              text not null default '' check (country_of_origin ~ '^([A-Z]{2})?$'),
  weight_g                       integer not null default 0 check (weight_g >= 0),
  -- False once its return is closed, cancelled or expired.
  live                           boolean not null default true,
  -- Taken out by an edit: no longer part of the details, but inspections of it may still come.
  removed_at                     timestamptz(3),
  primary key (shop_id, id),
  foreign key (shop_id, return_id) references returns (shop_id, id)
);

create index return_lines_by_return on return_lines (shop_id, return_id, position);
create index return_lines_by_sku on return_lines (shop_id, sku) where sku <> '';
-- An order line can be in one live return only.
create unique index return_lines_one_live on return_lines (shop_id, provider_line_item_id) where live;

-- What became of a line: the latest assessment. Former ones are in the timeline.
create table line_dispositions (
  shop_id          public_id not null,
  line_item_id     public_id not null,
  assessment_id    bigint not null,
  outcome          text not null check (outcome in ('back_to_stock', 'resale_hold', 'recycle', 'donate', 'missing')),
  return_processor text check (char_length(return_processor) <= 100),
  note             text check (char_length(note) <= 65535),
  inspected_at     timestamptz(3),
  images           text[] not null default '{}',
  primary key (shop_id, line_item_id),
  foreign key (shop_id, line_item_id) references return_lines (shop_id, id) on delete cascade
);

-- What was found on a line: the latest grading.
create table line_conditions (
  shop_id          public_id not null,
  line_item_id     public_id not null,
  grading_id       bigint not null,
  description      text not null default '' check (char_length(description) <= 65535),
  subject          text not null check (char_length(subject) <= 191),
  title            text not null check (char_length(title) <= 191),
  grade            text check (grade in ('a', 'b', 'c', 'd')),
  category_name    text check (category_name in ('incorrect_item', 'missing', 'junk')),
  category_parent  text check (char_length(category_parent) <= 191),
  return_processor text check (char_length(return_processor) <= 100),
  note             text check (char_length(note) <= 65535),
  inspected_at     timestamptz(3),
  images           text[] not null default '{}',
  primary key (shop_id, line_item_id),
  foreign key (shop_id, line_item_id) references return_lines (shop_id, id) on delete cascade
);

create table uploads (
  shop_id      public_id not null,
  id           bigint not null generated always as identity check (id between 1 and 9007199254740991),
  return_id    public_id not null,
  line_item_id public_id not null,
  kind         text not null check (kind in ('image', 'media')),
  source       text not null default '' check (char_length(source) <= 191),
  media_type   text not null default '' check (char_length(media_type) <= 191),
  url          text not null check (char_length(url) between 1 and 2048),
  created_at   timestamptz(3) not null default now(),
  primary key (shop_id, id),
  foreign key (shop_id, return_id) references returns (shop_id, id),
  foreign key (shop_id, line_item_id) references return_lines (shop_id, id) on delete cascade
);
create index uploads_by_return on uploads (shop_id, return_id);
create index uploads_by_line on uploads (shop_id, line_item_id);

-- What the shopper wants instead.
create table exchanges (
  shop_id                 public_id not null,
  id                      bigint not null generated always as identity check (id between 1 and 9007199254740991),
  return_id               public_id not null,
  position                integer not null check (position >= 0),
  product_id              bigint not null default 0 check (product_id between 0 and 9007199254740991),
  variant_id              bigint not null default 0 check (variant_id between 0 and 9007199254740991),
  sku                     text not null default '' check (char_length(sku) <= 191),
  title                   text not null default '' check (char_length(title) <= 191),
  price                   amount not null,
  discount                amount not null,
  tax                     amount not null,
  presentment_price       amount not null,
  presentment_discount    amount not null,
  presentment_tax         amount not null,
  type                    text not null default 'variant' check (type in ('product', 'variant')),
  out_of_stock            boolean not null default false,
  out_of_stock_resolution text check (char_length(out_of_stock_resolution) <= 191),
  primary key (shop_id, id),
  foreign key (shop_id, return_id) references returns (shop_id, id)
);
create index exchanges_by_return on exchanges (shop_id, return_id, position);

-- Orders that processing placed at the commerce provider; a gift card's order says what it is worth.
create table provider_orders (
  shop_id           public_id not null,
  return_id         public_id not null,
  kind              text not null check (kind in ('exchange', 'gift_card')),
  provider_order_id public_id not null,
  name              text not null check (char_length(name) <= 191),
  value             amount,
  currency          currency_code,
  created_at        timestamptz(3) not null default now(),
  primary key (shop_id, return_id, kind, provider_order_id),
  foreign key (shop_id, return_id) references returns (shop_id, id),
  constraint provider_orders_gift_card_value check (
    (kind = 'gift_card') = (value is not null and currency is not null))
);
create unique index provider_orders_one_gift_card on provider_orders (shop_id, return_id) where kind = 'gift_card';

-- Refunds that processing made.
create table refunds (
  shop_id             public_id not null,
  id                  bigint not null generated always as identity check (id between 1 and 9007199254740991),
  return_id           public_id not null,
  gateway             text not null check (char_length(gateway) <= 191),
  provider            text not null check (char_length(provider) <= 191),
  provider_refund_id  text not null check (char_length(provider_refund_id) between 1 and 191),
  value               amount not null,
  currency            currency_code not null,
  provider_created_at timestamptz(3) not null,
  created_at          timestamptz(3) not null default now(),
  updated_at          timestamptz(3) not null default now(),
  primary key (shop_id, id),
  foreign key (shop_id, return_id) references returns (shop_id, id),
  constraint refunds_once unique (shop_id, return_id, provider_refund_id)
);

create table labels (
  shop_id         public_id not null,
  id              bigint not null generated always as identity check (id between 1 and 9007199254740991),
  return_id       public_id not null,
  carrier         text not null check (char_length(carrier) between 1 and 191),
  tracking_number text not null default '' check (char_length(tracking_number) <= 191),
  url             text not null default '' check (char_length(url) <= 2048),
  rate            amount,
  status          text not null check (status in ('new', 'pre_transit', 'in_transit', 'out_for_delivery', 'delivered', 'error', 'failure')),
  line_item_ids   bigint[] not null,
  created_at      timestamptz(3) not null,
  updated_at      timestamptz(3) not null,
  -- The latest time that the carrier reported; what is older than it is ignored.
  heard_at        timestamptz(3) not null,
  primary key (shop_id, id),
  foreign key (shop_id, return_id) references returns (shop_id, id)
);
create index labels_by_return on labels (shop_id, return_id, created_at, id);
create index labels_by_tracking on labels (shop_id, tracking_number) where tracking_number <> '';

create table label_requests (
  shop_id    public_id not null,
  id         bigint not null generated always as identity check (id between 1 and 9007199254740991),
  return_id  public_id not null,
  state      text not null default 'open' check (state in ('open', 'fulfilled', 'cancelled')),
  created_at timestamptz(3) not null default now(),
  -- Addresses, parcel and products as they were asked for, as proto JSON; null once redacted.
  content    jsonb,
  primary key (shop_id, id),
  foreign key (shop_id, return_id) references returns (shop_id, id)
);
create unique index label_requests_one_open on label_requests (shop_id, return_id) where state = 'open';
create index label_requests_by_return on label_requests (shop_id, return_id);

create table shipments (
  shop_id             public_id not null,
  id                  bigint not null generated always as identity check (id between 1 and 9007199254740991),
  partner_shipment_id text not null check (char_length(partner_shipment_id) between 1 and 200),
  tracking            text not null default '' check (char_length(tracking) <= 191),
  destination_id      public_id,
  return_ids          bigint[] not null,
  processed_at        timestamptz(3) not null,
  primary key (shop_id, id),
  constraint shipments_partner_id_once unique (shop_id, partner_shipment_id)
);

-- What a key was used for: a repeat with the same content answers the first result.
create table idempotency_keys (
  shop_id      public_id not null,
  operation    text not null check (char_length(operation) between 1 and 60),
  key          text not null check (char_length(key) between 1 and 200),
  request_hash bytea not null,
  result_id    public_id not null,
  created_at   timestamptz(3) not null default now(),
  constraint idempotency_keys_once primary key (shop_id, operation, key)
);

-- What happened to a return, for people. Kept for 400 days.
create table timeline (
  shop_id     public_id not null,
  id          bigint not null generated always as identity check (id between 1 and 9007199254740991),
  return_id   public_id not null,
  occurred_at timestamptz(3) not null default clock_timestamp(),
  kind        text not null check (char_length(kind) between 1 and 100),
  text        text not null default '' check (char_length(text) <= 65535),
  author      text not null default '' check (char_length(author) <= 200),
  facts       jsonb not null default '{}',
  actor_kind  text not null check (actor_kind in ('user', 'api_key', 'partner_app', 'service', 'system')),
  actor_id    text not null check (char_length(actor_id) between 1 and 200),
  actor_name  text not null default '' check (char_length(actor_name) <= 200),
  -- No foreign key, which is checked row by row: whoever writes holds the return, and none is deleted.
  primary key (shop_id, return_id, id)
);
create index timeline_by_time on timeline (occurred_at);

-- Returns as they were at a revision whose events left the snapshot out for its size.
create table snapshots (
  shop_id    public_id not null,
  return_id  public_id not null,
  revision   bigint not null,
  value      bytea not null,
  created_at timestamptz(3) not null default now(),
  primary key (shop_id, return_id, revision),
  foreign key (shop_id, return_id) references returns (shop_id, id)
);
create index snapshots_by_time on snapshots (created_at);
