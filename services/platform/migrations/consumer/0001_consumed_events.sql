-- Which events were handled, so that a repeated one changes nothing.
create table consumed_events (
  shop_id     bigint not null,
  event_id    uuid not null,
  consumer    text not null,
  consumed_at timestamptz not null default now(),
  primary key (shop_id, event_id, consumer)
);

create index consumed_events_by_time on consumed_events (consumed_at);

-- Records that could not be handled, kept whole for a replay.
create table poison_records (
  id        bigint generated always as identity (maxvalue 999999999) primary key,
  consumer  text not null,
  topic     text not null,
  position  text not null,
  key       text not null,
  value     bytea not null,
  headers   jsonb not null,
  reason    text not null,
  attempts  integer not null check (attempts > 0),
  parked_at timestamptz not null default now(),
  constraint poison_records_once unique (consumer, topic, position)
);
