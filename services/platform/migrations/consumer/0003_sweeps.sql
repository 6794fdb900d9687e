-- How far the events that a service has published were compared with those that a listener has handled.
create table event_sweeps (
  consumer text not null check (char_length(consumer) between 1 and 100),
  source   text not null check (char_length(source) between 1 and 100),
  -- As the source gave it; empty before the first page.
  cursor   text not null default '',
  -- One process at a time sweeps, and not before this time.
  next_at  timestamptz not null,
  primary key (consumer, source)
);

-- Events that were published and that the listener did not get: each is published again until it is handled.
create table missing_events (
  consumer        text not null,
  source          text not null,
  -- In the `events` of the source.
  position        bigint not null,
  shop_id         bigint not null check (shop_id between 1 and 9007199254740991),
  event_id        uuid not null,
  day             date not null,
  found_at        timestamptz not null default clock_timestamp(),
  published_again integer not null default 0,
  next_at         timestamptz not null default clock_timestamp(),
  primary key (consumer, source, position)
);
