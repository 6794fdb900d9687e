-- fits: 1.0.0
-- Declarations of shoppers to withdraw from a contract (Directive 2011/83/EU, Article 11a). They are proofs, so no row
-- ever changes. What became of one is a row beside it.
create table withdrawals (
  shop_id     public_id not null,
  id          bigint not null generated always as identity (maxvalue 999999999) check (id between 1 and 999999999),
  order_name  text not null check (char_length(order_name) between 1 and 191),
  name        text not null check (char_length(name) between 1 and 191),
  email       text not null check (char_length(email) between 1 and 320),
  declared_at timestamptz(3) not null,
  primary key (shop_id, id)
);
-- For the purge.
create index withdrawals_declared_at on withdrawals (declared_at);

create function reject_change() returns trigger language plpgsql as $$
begin
  raise exception 'rows of % never change', tg_table_name;
end
$$;
create trigger withdrawals_never_change before update on withdrawals
  for each row execute function reject_change();

create table withdrawal_returns (
  shop_id       public_id not null,
  withdrawal_id bigint not null,
  return_id     bigint not null,
  created_at    timestamptz(3) not null default now(),
  primary key (shop_id, withdrawal_id),
  foreign key (shop_id, withdrawal_id) references withdrawals (shop_id, id) on delete cascade,
  foreign key (shop_id, return_id) references returns (shop_id, id) on delete cascade
);
create index withdrawal_returns_by_return on withdrawal_returns (shop_id, return_id);

-- Withdrawals that become returns by themselves, until a worker has made the return or a person must decide.
create table withdrawal_jobs (
  shop_id       public_id not null,
  withdrawal_id bigint not null,
  due_at        timestamptz not null default now(),
  attempts      smallint not null default 0,
  primary key (shop_id, withdrawal_id),
  foreign key (shop_id, withdrawal_id) references withdrawals (shop_id, id) on delete cascade
);
create index withdrawal_jobs_due on withdrawal_jobs (due_at);
