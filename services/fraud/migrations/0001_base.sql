-- fits: 1.0.0
-- Reports of staff that a return is fraud.
create table reports (
  shop_id    bigint not null check (shop_id between 1 and 9007199254740991),
  id         bigint not null generated always as identity (maxvalue 999999999),
  return_id  bigint not null check (return_id between 1 and 9007199254740991),
  category   text constraint reports_category check (category in (
    'package-never-received', 'package-is-empty', 'package-is-missing-items',
    'instant-return-charge-failed', 'keep-item-abuse', 'splitting-returns-to-avoid-restrictions',
    'item-is-worn', 'other'
  )),
  comment    text check (char_length(comment) <= 512),
  actor_kind text not null check (actor_kind in ('user', 'api_key', 'partner_app', 'service', 'system')),
  actor_id   text not null check (char_length(actor_id) between 1 and 200),
  actor_name text not null,
  created_at timestamptz not null default now(),
  primary key (shop_id, id),
  constraint reports_id_once unique (id),
  constraint reports_one_per_return unique (shop_id, return_id),
  constraint reports_other_explained check (category <> 'other' or comment is not null)
);
