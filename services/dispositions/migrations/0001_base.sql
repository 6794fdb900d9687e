-- fits: 1.0.0
create table settings (
  shop_id         bigint primary key check (shop_id between 1 and 9007199254740991),
  default_outcome text not null check (default_outcome in ('back_to_stock', 'resale_hold', 'recycle', 'donate', 'missing'))
);

-- Every assessment and grading. None is changed. The ids of a line grow in the order of commits, because they are drawn
-- under the lock of the line's row in inspected_lines.
create table inspections (
  shop_id            bigint not null check (shop_id between 1 and 9007199254740991),
  id                 bigint not null generated always as identity (maxvalue 9007199254740991),
  kind               text not null check (kind in ('assessment', 'grading')),
  line_item_id       bigint not null check (line_item_id between 1 and 9007199254740991),
  outcome            text check (outcome in ('back_to_stock', 'resale_hold', 'recycle', 'donate', 'missing')),
  category           text check (category in ('grade_a', 'grade_b', 'grade_c', 'grade_d', 'incorrect_item', 'missing', 'junk')),
  subject            text check (char_length(subject) between 1 and 191),
  title              text check (char_length(title) between 1 and 191),
  category_parent    text check (char_length(category_parent) <= 191),
  -- Long descriptions and notes are stored once, by returns. When it has an inspection, this table keeps only their
  -- SHA-256, by which a repeated call is recognized.
  description        text check (char_length(description) <= 65535),
  description_sha256 bytea check (length(description_sha256) = 32),
  return_processor   text check (char_length(return_processor) <= 100),
  note               text check (char_length(note) <= 65535),
  note_sha256        bytea check (length(note_sha256) = 32),
  inspected_at       timestamptz not null,
  -- True when the call had no time.
  time_defaulted     boolean not null,
  images             text[] not null check (cardinality(images) <= 100),
  actor_kind         text not null check (actor_kind in ('user', 'api_key', 'partner_app', 'service', 'system')),
  actor_id           text not null check (char_length(actor_id) between 1 and 200),
  actor_name         text not null,
  created_at         timestamptz not null default now(),
  primary key (shop_id, id),
  constraint inspections_of_one_kind check (
    (kind = 'assessment') = (outcome is not null)
    and (kind = 'grading') = (num_nulls(category, subject, title, description) = 0)
    and (kind = 'grading' or num_nonnulls(category, subject, title, category_parent, description) = 0)
  )
);

-- The two tables below refer to inspections without foreign keys. One statement writes all three, and a key would be
-- checked row by row, sixty times for thirty lines.

-- The newest inspection of each line; null only inside the transaction that makes the first one.
create table inspected_lines (
  shop_id       bigint not null check (shop_id between 1 and 9007199254740991),
  kind          text not null check (kind in ('assessment', 'grading')),
  line_item_id  bigint not null check (line_item_id between 1 and 9007199254740991),
  inspection_id bigint check (inspection_id between 1 and 9007199254740991),
  primary key (shop_id, kind, line_item_id)
);

-- Inspections that returns may not have yet. A process hands a row over under a lease, see
-- services/platform/leases/leases.ts.
create table handovers (
  shop_id       bigint not null check (shop_id between 1 and 9007199254740991),
  inspection_id bigint not null check (inspection_id between 1 and 9007199254740991),
  kind          text not null check (kind in ('assessment', 'grading')),
  line_item_id  bigint not null check (line_item_id between 1 and 9007199254740991),
  -- The newest inspection of the line before this one; null for the first. It is the newest again when this one is
  -- deleted because it does not fit into the return.
  former_id     bigint check (former_id between 1 and 9007199254740991),
  attempts      integer not null default 0,
  -- The next try, or the expiry of the lease.
  due_at        timestamptz not null,
  -- Null while no process hands the row over.
  lease_token   bigint,
  primary key (shop_id, inspection_id)
);

create index handovers_by_line on handovers (shop_id, kind, line_item_id, inspection_id);
create index handovers_by_due on handovers (due_at);
