-- fits: 1.0.0
-- Returns and everything that their details are made of, their processing, and the commerce providers. Sums are derived
-- when read; what is stored is what was submitted, in both currencies.

-- Not negative, at most 10^12, with at most the four decimals that ISO 4217 knows.
create domain amount as numeric
  constraint amount_in_range check (value >= 0 and value <= 1000000000000 and scale(value) <= 4);
create domain currency_code as text constraint currency_code_iso check (value ~ '^[A-Z]{3}$');
-- Ids leave as JSON numbers, which carry no more than 2^53 - 1 exactly.
create domain public_id as bigint
  constraint public_id_range check (value between 1 and 9007199254740991);

-- The form in which identities are compared: NFC, trimmed. The white space is that of `trim` in JavaScript, so that
-- `normalForm` in services/platform/values/text.ts returns the same.
create function normal_form(text) returns text
  language sql immutable strict parallel safe
  return btrim(normalize($1, NFC), E' \t\n\u000b\f\r\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000\ufeff');

-- Searches for a part of a text read indexes of trigrams. The extension comes with PostgreSQL and needs no superuser;
-- where somebody installed it before, it may be in another schema.
create extension if not exists pg_trgm;

create table settings (
  shop_id                  public_id primary key,
  currency                 currency_code not null,
  -- Production processes the returns of a sandbox with the embedded commerce provider, which moves no money.
  sandbox                  boolean not null default false,
  restock_mode             text not null default 'off' check (restock_mode in ('off', 'webhook', 'provider')),
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
  shop_id                   public_id not null,
  id                        bigint not null generated always as identity (maxvalue 999999999) check (id between 1 and 999999999),
  provider_order_id         public_id not null,
  -- What the order paid for shipping, with its tax, and the two currencies of these amounts, such as `GBP JPY`. Null when
  -- unknown.
  paid_shipping             amount,
  presentment_paid_shipping amount,
  paid_shipping_in          text check (paid_shipping_in ~ '^[A-Z]{3} [A-Z]{3}$'),
  created_at                timestamptz(3) not null default now(),
  primary key (shop_id, id),
  constraint orders_provider_order_id_once unique (shop_id, provider_order_id),
  constraint orders_paid_shipping
    check (num_nulls(paid_shipping, presentment_paid_shipping, paid_shipping_in) in (0, 3))
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
  -- return_total repeats the sum of the lines, as the operand of the rule below; no response has it.
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
  -- How the shopper pays what the exchange costs above the return credit.
  upsell_payment           text not null default 'invoice' check (upsell_payment in ('invoice', 'prepaid')),
  upsell_payment_reference text not null default '' check (char_length(upsell_payment_reference) <= 191),
  destination_id        public_id,
  status_page_url       text not null default '' check (char_length(status_page_url) <= 2048),
  package_reference     text not null default '' check (char_length(package_reference) <= 191),
  flag_reasons          text[] not null default '{}',
  -- True while processing is queued or running.
  processing            boolean not null default false,
  -- A random value, which is part of the keys of the return's effects. A database that was restored, or promoted without
  -- the last commits, gives the id of a lost return again. Without this value the new return would get the keys of the
  -- lost one, and the provider would answer with the effects of the lost one.
  effect_nonce          uuid not null default gen_random_uuid(),
  -- Counts what the commerce provider has reported of the return's order. Processing requests money only if nothing came
  -- since it looked.
  provider_news         integer not null default 0,
  -- The status of the newest label, so that an index finds the returns that have it. Null without a label.
  label_status          text check (label_status in ('new', 'pre_transit', 'in_transit', 'out_for_delivery', 'delivered', 'error', 'failure')),
  -- When the return was reported as fraud, so that an index finds the returns that were. Null without a report.
  fraud_reported_at     timestamptz(3),
  redacted_at           timestamptz(3),
  primary key (shop_id, id),
  foreign key (shop_id, order_id) references orders (shop_id, id),
  constraint returns_refund_rule check (
    refund + return_credit + handling_fee = return_total + shipping + credit_shipping),
  constraint returns_presentment_refund_rule check (
    presentment_refund + presentment_return_credit + presentment_handling_fee
      = presentment_return_total + presentment_shipping + presentment_credit_shipping),
  constraint returns_archived_when_closed check ((state = 'closed') = (archived_at is not null)),
  -- A return that expired in review goes back there if it opens again.
  constraint returns_flagged_in_review check (state in ('review', 'expired') or cardinality(flag_reasons) = 0),
  constraint returns_processing_when_open check (not processing or state = 'open')
) with (
  -- Marking a return as queued (`processing`) changes no indexed column. With free space in the page of the row,
  -- PostgreSQL then writes no index entry.
  fillfactor = 85
);

create index returns_by_time on returns (shop_id, created_at desc, id desc);
create index returns_by_order on returns (shop_id, order_id, created_at desc, id desc);
-- Searches compare texts in their normal form.
create index returns_by_order_name on returns (shop_id, normal_form(order_name), created_at desc, id desc);
create index returns_by_email on returns (shop_id, lower(normal_form(customer_email))) where customer_email is not null;
do $$
begin
  execute format($index$
    create index returns_by_customer_name on returns
     using gin (lower(normal_form(coalesce(customer_first_name, '') || ' ' || coalesce(customer_last_name, ''))) %I.gin_trgm_ops)
     where customer_first_name is not null or customer_last_name is not null$index$,
    (select n.nspname from pg_extension e join pg_namespace n on n.oid = e.extnamespace where e.extname = 'pg_trgm'));
end
$$;
-- Lists by state, in the order of submission or of the last change.
create index returns_by_state_created on returns (shop_id, state, created_at desc, id desc);
create index returns_by_state_updated on returns (shop_id, state, updated_at desc, id desc);
-- Lists by other filters.
create index returns_by_destination on returns (shop_id, destination_id, state, created_at desc, id desc)
  where destination_id is not null;
create index returns_by_outcome on returns (shop_id, outcome, state, created_at desc, id desc);
create index returns_by_label_status on returns (shop_id, label_status, state, created_at desc, id desc)
  where label_status is not null;
create index returns_without_label on returns (shop_id, state, created_at desc, id desc) where label_status is null;
create index returns_by_fraud_report on returns (shop_id, state, created_at desc, id desc)
  where fraud_reported_at is not null;
-- What the expiry sweep reads.
create index returns_live on returns (shop_id, id) where state in ('open', 'review');

create table return_lines (
  shop_id                        public_id not null,
  id                             bigint not null generated always as identity (maxvalue 9007199254740991) check (id between 1 and 9007199254740991),
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
  -- Units that the order has of the line; null when the submission did not say.
  ordered_quantity               integer check (ordered_quantity between 1 and 1000000),
  price                          amount not null,
  discount                       amount not null,
  tax                            amount not null,
  refund_item                    amount not null,
  refund_tax                     amount not null,
  -- The tax on shipping is a part of it.
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
  -- Removed by an edit: no longer part of the details, but inspections of it may still come.
  removed_at                     timestamptz(3),
  primary key (shop_id, id),
  foreign key (shop_id, return_id) references returns (shop_id, id),
  constraint return_lines_shipping_tax_part check (
    refund_shipping_tax <= refund_shipping
    and presentment_refund_shipping_tax <= presentment_refund_shipping)
);

create index return_lines_by_return on return_lines (shop_id, return_id, position);
-- Other returns of an order line. An order line can be in several open returns, as long as their units are at most the
-- ordered ones. A submission, an edit and a reopening count them under the lock of the order.
create index return_lines_by_order_line on return_lines (shop_id, provider_line_item_id);
create index return_lines_by_sku on return_lines (shop_id, normal_form(sku)) where sku <> '';
do $$
begin
  execute format('create index return_lines_by_title on return_lines using gin (lower(normal_form(title)) %I.gin_trgm_ops)',
    (select n.nspname from pg_extension e join pg_namespace n on n.oid = e.extnamespace where e.extname = 'pg_trgm'));
end
$$;

-- What became of a line: the latest assessment. Earlier ones are in the timeline.
create table line_dispositions (
  shop_id          public_id not null,
  line_item_id     public_id not null,
  assessment_id    public_id not null,
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
  grading_id       public_id not null,
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
  id           bigint not null generated always as identity (maxvalue 9007199254740991) check (id between 1 and 9007199254740991),
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
  id                      bigint not null generated always as identity (maxvalue 9007199254740991) check (id between 1 and 9007199254740991),
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
  id                  bigint not null generated always as identity (maxvalue 9007199254740991) check (id between 1 and 9007199254740991),
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
  id              bigint not null generated always as identity (maxvalue 9007199254740991) check (id between 1 and 9007199254740991),
  return_id       public_id not null,
  carrier         text not null check (char_length(carrier) between 1 and 191),
  tracking_number text not null default '' check (char_length(tracking_number) <= 191),
  url             text not null default '' check (char_length(url) <= 2048),
  rate            amount,
  status          text not null check (status in ('new', 'pre_transit', 'in_transit', 'out_for_delivery', 'delivered', 'error', 'failure')),
  line_item_ids   bigint[] not null,
  created_at      timestamptz(3) not null,
  updated_at      timestamptz(3) not null,
  -- The time of the last carrier update. An older update is ignored.
  heard_at        timestamptz(3) not null,
  primary key (shop_id, id),
  foreign key (shop_id, return_id) references returns (shop_id, id)
);
create index labels_by_return on labels (shop_id, return_id, created_at, id);
create index labels_by_tracking on labels (shop_id, normal_form(tracking_number)) where tracking_number <> '';

-- Keeps `label_status` of the return. Every writer of a label has locked its return.
create function set_label_status() returns trigger
language plpgsql set search_path from current
as $$
begin
  update returns r
     set label_status = newest.status
    from (select b.status from labels b
           where b.shop_id = new.shop_id and b.return_id = new.return_id
           order by b.created_at desc, b.id desc limit 1) newest
   where r.shop_id = new.shop_id and r.id = new.return_id and r.label_status is distinct from newest.status;
  return null;
end
$$;

create trigger set_label_status after insert or update of status, created_at on labels
for each row execute function set_label_status();

create table label_requests (
  shop_id    public_id not null,
  id         bigint not null generated always as identity (maxvalue 9007199254740991) check (id between 1 and 9007199254740991),
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
  id                  bigint not null generated always as identity (maxvalue 9007199254740991) check (id between 1 and 9007199254740991),
  partner_shipment_id text not null check (char_length(partner_shipment_id) between 1 and 200),
  tracking            text not null default '' check (char_length(tracking) <= 191),
  destination_id      public_id,
  return_ids          bigint[] not null,
  processed_at        timestamptz(3) not null,
  primary key (shop_id, id),
  constraint shipments_partner_id_once unique (shop_id, partner_shipment_id)
);

-- What happened to a return, for people. Kept for 400 days.
create table timeline (
  shop_id       public_id not null,
  id            bigint not null generated always as identity (maxvalue 9007199254740991) check (id between 1 and 9007199254740991),
  return_id     public_id not null,
  occurred_at   timestamptz(3) not null default clock_timestamp(),
  kind          text not null check (char_length(kind) between 1 and 100),
  text          text not null default '' check (char_length(text) <= 65535),
  author        text not null default '' check (char_length(author) <= 200),
  facts         jsonb not null default '{}',
  actor_kind    text not null check (actor_kind in ('user', 'api_key', 'partner_app', 'service', 'system')),
  actor_id      text not null check (char_length(actor_id) between 1 and 200),
  actor_name    text not null default '' check (char_length(actor_name) <= 200),
  -- The program through which a user acted, such as `portal`; empty when unknown.
  actor_through text not null default '' constraint timeline_actor_through_length check (char_length(actor_through) <= 200),
  -- No foreign key, which is checked row by row: every writer has locked the return, and no return is deleted.
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

-- What a key was used for: a repeat with the same content gets the first result.
create table idempotency_keys (
  shop_id      public_id not null,
  operation    text not null check (char_length(operation) between 1 and 60),
  key          text not null check (char_length(key) between 1 and 200),
  request_hash bytea not null,
  result_id    public_id not null,
  created_at   timestamptz(3) not null default now(),
  constraint idempotency_keys_once primary key (shop_id, operation, key)
);
-- What the purge of keys reads. A key that made a return is kept as long as the return, one that is itself the id of a
-- shipment as long as the shipment.
create index idempotency_keys_by_time on idempotency_keys (created_at)
  where operation not in ('SubmitReturn', 'RecordPartnerShipment');

-- Processing: jobs, their effects at the commerce provider, and instant refunds.

-- One row for each run. A worker works on it under a lease, see services/platform/leases/leases.ts.
create sequence processing_tokens;

create table processing_jobs (
  shop_id       public_id not null,
  id            bigint not null generated always as identity (maxvalue 9007199254740991) check (id between 1 and 9007199254740991),
  return_id     public_id not null,
  -- `cancelling`: the job cancels a return whose exchange order was made. It cancels the order first.
  state         text not null default 'queued' check (state in ('queued', 'running', 'cancelling', 'done', 'failed')),
  details       json not null,
  source        text not null check (char_length(source) <= 50),
  actor         bytea not null,
  traceparent   text not null,
  queued_at     timestamptz(3) not null default now(),
  -- The next try, or the expiry of the lease.
  due_at        timestamptz not null default now(),
  -- When the provider first failed; passing failures are final some minutes after.
  failing_since timestamptz,
  failures      integer not null default 0 check (failures >= 0),
  -- How often a worker's lease expired since the job last made progress: a job that ends its worker every time must not
  -- run for ever.
  takeovers     integer not null default 0 check (takeovers >= 0),
  -- Grows with every claim: a worker whose token is no longer here has lost the job.
  lease_token   bigint,
  finished_at   timestamptz(3),
  primary key (shop_id, id),
  foreign key (shop_id, return_id) references returns (shop_id, id),
  constraint processing_jobs_finished check ((state in ('done', 'failed')) = (finished_at is not null)),
  constraint processing_jobs_leased check (state <> 'running' or lease_token is not null)
);

create unique index processing_jobs_one_live on processing_jobs (shop_id, return_id)
  where state in ('queued', 'running', 'cancelling');
create index processing_jobs_due on processing_jobs (due_at) where state in ('queued', 'running', 'cancelling');
-- A shop may run a limited number of jobs.
create index processing_jobs_running on processing_jobs (shop_id) where state in ('running', 'cancelling');
-- The input of the last failed run, for the next one.
create index processing_jobs_by_return on processing_jobs (shop_id, return_id, id) where state = 'failed';
create index processing_jobs_finished on processing_jobs (finished_at) where state in ('done', 'failed');

-- The effects that processing wants from the commerce provider for a return, kept over all runs: one of each kind. A row
-- without `done_at` is an intent. Only the provider knows, by the key, whether it took effect.
create table processing_outcomes (
  shop_id             public_id not null,
  return_id           public_id not null,
  kind                text not null check (kind in ('exchange_order', 'gift_card', 'refund', 'restock', 'order_cancel')),
  key                 text not null check (char_length(key) between 1 and 200),
  -- A restock and the cancellation of an exchange order move no money.
  amount              amount not null constraint processing_outcomes_amount_check check ((amount = 0) = (kind in ('restock', 'order_cancel'))),
  currency            currency_code not null,
  intended_at         timestamptz(3) not null default now(),
  -- When the provider was last asked for the effect and has not definitely rejected it. Without `done_at` the outcome is
  -- unknown: the effect may exist.
  asked_at            timestamptz(3),
  -- When the oldest request was sent whose outcome is not known. A repeat renews `asked_at`, but not the time until which
  -- the provider keeps the key.
  first_asked_at      timestamptz(3),
  -- Why the newest request did not succeed, for people.
  problem             text not null default '' check (char_length(problem) <= 500),
  done_at             timestamptz(3),
  -- The order or the refund in the provider's response.
  provider_id         text check (char_length(provider_id) between 1 and 191),
  name                text check (char_length(name) <= 191),
  gateway             text check (char_length(gateway) <= 191),
  provider            text check (char_length(provider) <= 191),
  provider_created_at timestamptz(3),
  -- Set once the details of the return show it.
  shown_at            timestamptz(3),
  primary key (shop_id, return_id, kind),
  foreign key (shop_id, return_id) references returns (shop_id, id),
  constraint processing_outcomes_asked check ((asked_at is null) = (first_asked_at is null)),
  constraint processing_outcomes_done check ((done_at is null) = (provider_id is null))
);

-- A reconciliation reads the effects of a day, and effects by key.
create index processing_outcomes_done on processing_outcomes (shop_id, done_at);
create index processing_outcomes_by_key on processing_outcomes (shop_id, key);
-- Whether a refund at the provider is one that processing requested.
create index processing_outcomes_refunds on processing_outcomes (shop_id, provider_id) where kind = 'refund';
-- Effects with an unknown outcome. Processing reads those of one return. By the shop alone it would also read the dead
-- entries of every return that the shop has processed since the last vacuum.
create index processing_outcomes_unknown on processing_outcomes (shop_id, return_id)
  where asked_at is not null and done_at is null;

create table gift_card_requests (
  shop_id          public_id not null,
  id               bigint not null generated always as identity (maxvalue 9007199254740991) check (id between 1 and 9007199254740991),
  return_id        public_id not null,
  amount           amount not null check (amount > 0),
  currency         currency_code not null,
  requested_at     timestamptz(3) not null default now(),
  primary key (shop_id, id),
  foreign key (shop_id, return_id) references returns (shop_id, id),
  constraint gift_card_requests_one unique (shop_id, return_id)
);

create table instant_refunds (
  shop_id          public_id not null,
  id               bigint not null generated always as identity (maxvalue 9007199254740991) check (id between 1 and 9007199254740991),
  return_id        public_id not null,
  amount           amount not null check (amount > 0),
  currency         currency_code not null,
  charge_reference text not null check (char_length(charge_reference) <= 191),
  state            text not null default 'open' check (state in ('open', 'returned', 'charged', 'charge_failed')),
  created_at       timestamptz(3) not null default now(),
  settled_at       timestamptz(3),
  primary key (shop_id, id),
  foreign key (shop_id, return_id) references returns (shop_id, id),
  constraint instant_refunds_settled check ((state = 'open') = (settled_at is null))
);

create unique index instant_refunds_one_open on instant_refunds (shop_id, return_id) where state = 'open';
create index instant_refunds_return on instant_refunds (shop_id, return_id);

-- Where the effects of a shop's returns are requested: an endpoint over HTTP, or a store at Shopify. A shop without a row
-- has no provider of its own.
create table commerce_connections (
  shop_id        public_id primary key,
  adapter        text not null,
  url            text check (char_length(url) between 1 and 2048),
  shop_domain    text unique check (shop_domain ~ '^[a-z0-9][a-z0-9-]{0,59}[.]myshopify[.]com$'),
  -- The scopes that the merchant granted, separated by commas.
  scopes         text not null default '' check (char_length(scopes) <= 4000),
  -- When the merchant removed the app. Until it is installed again, the shop has no token.
  uninstalled_at timestamptz(3),
  -- The secret for the codes of a store's gift cards, encrypted with COMMERCE_KEYRING. It stays when the merchant removes
  -- the app, so that the next install makes the same codes.
  code_key_id    text check (char_length(code_key_id) between 1 and 50),
  code_sealed    bytea,
  connected_at   timestamptz(3) not null default now(),
  updated_at     timestamptz(3) not null default now(),
  constraint commerce_connections_adapter check (
    case adapter
      when 'http' then url is not null and shop_domain is null
      when 'shopify' then url is null and shop_domain is not null
      else false
    end),
  constraint commerce_connections_code check (num_nulls(code_key_id, code_sealed) in (0, 2))
);

-- What signs the requests to an endpoint, encrypted with COMMERCE_KEYRING.
create table commerce_secrets (
  shop_id    public_id not null references commerce_connections (shop_id) on delete cascade,
  id         bigint not null generated always as identity (maxvalue 9007199254740991) check (id between 1 and 9007199254740991),
  key_id     text not null check (char_length(key_id) between 1 and 50),
  sealed     bytea not null,
  created_at timestamptz(3) not null default now(),
  -- Null for the newest one; an older one signs until this time.
  expires_at timestamptz,
  primary key (shop_id, id)
);

-- The offline access token of a store. It may expire: then a refresh token gets the next pair. Both are encrypted with
-- COMMERCE_KEYRING.
create table shopify_tokens (
  shop_id          public_id primary key references commerce_connections (shop_id) on delete cascade,
  key_id           text not null check (char_length(key_id) between 1 and 50),
  sealed           bytea not null,
  created_at       timestamptz(3) not null default now(),
  -- Null for a token that does not expire.
  expires_at       timestamptz(3),
  refresh_key_id   text check (char_length(refresh_key_id) between 1 and 50),
  refresh_sealed   bytea,
  -- When this pair was stored.
  refreshed_at     timestamptz(3) not null default now(),
  -- Until then one process refreshes, or nobody asks again after a failure.
  refreshing_until timestamptz(3),
  -- Since when Shopify refuses to refresh: the merchant must install the app again.
  refused_at       timestamptz(3),
  constraint shopify_tokens_refresh check (num_nulls(expires_at, refresh_key_id, refresh_sealed) in (0, 3))
);
create index shopify_tokens_by_refresh on shopify_tokens (refreshed_at) where refresh_sealed is not null;

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
  id               bigint primary key generated always as identity (maxvalue 9007199254740991) check (id between 1 and 9007199254740991),
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
  id               bigint not null generated always as identity (maxvalue 9007199254740991) check (id between 1 and 9007199254740991),
  request_id       public_id not null,
  customer_id      public_id not null,
  order_ids        bigint[] not null,
  received_at      timestamptz(3) not null default now(),
  primary key (shop_id, id)
);
create index shopify_data_requests_by_age on shopify_data_requests (received_at);

-- The comparison of a day's effects with those of the provider.
create table commerce_reconciliations (
  shop_id          public_id not null,
  -- In UTC.
  day              date not null,
  finished_at      timestamptz(3) not null default now(),
  compared         integer not null check (compared >= 0),
  differences      integer not null check (differences >= 0),
  primary key (shop_id, day)
);

-- How far the comparison has come that was tried last for a shop, so that the next try continues it.
create table commerce_comparisons (
  shop_id          public_id primary key,
  -- In UTC.
  day              date not null,
  -- When the last try began.
  tried_at         timestamptz(3) not null default now(),
  -- Whether the provider listed its effects.
  listed           boolean not null default false,
  -- The effects of the day are compared in the order of return and kind. This is the last one that was compared; null
  -- before the first one.
  return_id        public_id,
  kind             text not null default '' check (char_length(kind) <= 50),
  -- Number of effects that the comparison searched for, and of differences among them.
  searched         integer not null default 0 check (searched >= 0),
  differences      integer not null default 0 check (differences >= 0)
);

-- What a shop's commerce provider reports of its orders.
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

-- Events that were recorded: a repeated one changes nothing. Kept for a week.
create table inbound_events (
  shop_id     public_id not null,
  webhook_id  text not null check (char_length(webhook_id) between 1 and 200),
  received_at timestamptz(3) not null default now(),
  primary key (shop_id, webhook_id)
);
create index inbound_events_by_age on inbound_events (received_at);

-- The embedded commerce provider. Like a provider elsewhere, it has no foreign keys into the other tables.
create sequence commerce_ids minvalue 1000000000000 maxvalue 9007199254740991;

create table commerce_ledger (
  shop_id          public_id not null,
  idempotency_key  text not null check (char_length(idempotency_key) between 1 and 200),
  provider_id      public_id not null unique default nextval('commerce_ids'),
  return_id        public_id not null,
  kind             text not null check (kind in ('exchange_order', 'gift_card', 'refund', 'restock', 'order_cancel')),
  name             text not null,
  amount           amount not null constraint commerce_ledger_amount_check check ((amount = 0) = (kind in ('restock', 'order_cancel'))),
  -- What the shopper must still pay of an exchange order.
  due              amount not null default 0,
  currency         currency_code not null,
  calls            integer not null default 1,
  items            json not null,
  additional_details json not null,
  created_at       timestamptz(3) not null default now(),
  primary key (shop_id, idempotency_key)
);

create index commerce_ledger_return on commerce_ledger (shop_id, return_id);
-- What a reconciliation reads.
create index commerce_ledger_made on commerce_ledger (shop_id, created_at);

create table commerce_failures (
  shop_id          public_id not null,
  return_id        public_id not null,
  kind             text not null check (kind in ('passing', 'final')),
  remaining        integer not null check (remaining >= 0),
  primary key (shop_id, return_id)
);
