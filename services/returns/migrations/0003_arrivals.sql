-- fits: 1.0.0
-- What arrived at a warehouse, by units.

alter table return_lines
  -- Units that arrived, at most the announced ones when they arrived. While it is 0, `returned_at` means that all did.
  add column arrived_quantity integer not null default 0 check (arrived_quantity between 0 and 1000000),
  add column damaged_quantity integer not null default 0 check (damaged_quantity >= 0),
  -- Units that processing pays for; null: all. It counts once the return is closed.
  add column refunded_quantity integer check (refunded_quantity between 0 and 1000000),
  -- The destination where units are expected, 0 when none was chosen. Null when no units are. The triggers below keep it.
  add column expected_at bigint,
  add constraint return_lines_damaged_part check (damaged_quantity <= arrived_quantity);

alter table returns
  -- Units that arrived and were not announced.
  add column unexpected_quantity integer not null default 0 check (unexpected_quantity >= 0);

alter table line_dispositions
  -- Units that it is about; null: all.
  add column quantity integer check (quantity between 1 and 1000000);

-- What one delivery had of one return.
create table arrivals (
  shop_id        public_id not null,
  id             bigint not null generated always as identity (maxvalue 9007199254740991) check (id between 1 and 9007199254740991),
  return_id      public_id not null,
  destination_id public_id,
  arrived_at     timestamptz(3) not null,
  -- Number of its rows in the two tables below.
  item_count     integer not null check (item_count > 0),
  created_at     timestamptz(3) not null default now(),
  primary key (shop_id, id),
  foreign key (shop_id, return_id) references returns (shop_id, id)
);
create index arrivals_by_return on arrivals (shop_id, return_id, id);

-- As the warehouse counted them: units above the announced ones are in arrival_unexpected, too.
create table arrival_items (
  shop_id          public_id not null,
  arrival_id       public_id not null,
  position         integer not null check (position >= 0),
  line_item_id     public_id not null,
  quantity         integer not null check (quantity between 1 and 1000000),
  damaged_quantity integer not null check (damaged_quantity between 0 and quantity),
  note             text not null check (char_length(note) <= 2000),
  primary key (shop_id, arrival_id, position),
  foreign key (shop_id, arrival_id) references arrivals (shop_id, id)
);

create table arrival_unexpected (
  shop_id      public_id not null,
  arrival_id   public_id not null,
  position     integer not null check (position >= 0),
  -- The line item of which more arrived than was announced; null when none.
  line_item_id public_id,
  sku          text not null check (char_length(sku) <= 191),
  barcode      text not null check (char_length(barcode) <= 191),
  title        text not null check (char_length(title) <= 400),
  quantity     integer not null check (quantity between 1 and 1000000),
  note         text not null check (char_length(note) <= 2000),
  primary key (shop_id, arrival_id, position),
  foreign key (shop_id, arrival_id) references arrivals (shop_id, id)
);

-- Keeps `expected_at`. A line that was reported as a whole has all its units.
create function set_expected_at() returns trigger
language plpgsql set search_path from current
as $$
begin
  new.expected_at := (
    select coalesce(r.destination_id::bigint, 0) from returns r
     where r.shop_id = new.shop_id and r.id = new.return_id
       and r.state in ('open', 'review', 'closed') and r.return_method <> 'keep_item'
       and new.removed_at is null and new.arrived_quantity < new.quantity
       and (new.returned_at is null or new.arrived_quantity > 0));
  return new;
end
$$;

create trigger set_expected_at before insert or update of quantity, removed_at, returned_at, arrived_quantity on return_lines
for each row execute function set_expected_at();

create function set_expected_at_of_lines() returns trigger
language plpgsql set search_path from current
as $$
begin
  -- The update runs the trigger of each line.
  update return_lines set arrived_quantity = arrived_quantity where shop_id = new.shop_id and return_id = new.id;
  return null;
end
$$;

create trigger set_expected_at_of_lines after update of state on returns
for each row when ((old.state in ('cancelled', 'expired')) <> (new.state in ('cancelled', 'expired')))
execute function set_expected_at_of_lines();

-- Lines of returns that were closed before this migration are not expected: their goods came, or never will.
update return_lines l set arrived_quantity = 0
  from returns r
 where l.shop_id = r.shop_id and l.return_id = r.id and r.state in ('open', 'review') and l.live;

-- The list of what is expected, in the order of its pages.
create index return_lines_expected on return_lines (shop_id, id) where expected_at is not null;
create index return_lines_expected_at on return_lines (shop_id, expected_at, id) where expected_at is not null;
create index return_lines_expected_by_sku on return_lines (shop_id, normal_form(sku), id)
  where expected_at is not null and sku <> '';
