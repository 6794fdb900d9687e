-- fits: 1.0.0
-- The networks that webhooks reach: see services/webhooks/sender/network-limit.ts. The maintenance deletes rows.
create table receiver_networks (
  -- An IPv4 address, or the first 64 bits of an IPv6 address.
  network   text primary key check (char_length(network) between 1 and 50),
  -- When it last answered 2xx, to a day; null before the first.
  proven_at timestamptz,
  -- Attempts of the minute that began at minute_at, and bytes of the hour that began at hour_at, while it is not proven.
  minute_at timestamptz not null default now(),
  attempts  smallint not null default 1 check (attempts >= 0),
  hour_at   timestamptz not null default now(),
  bytes     integer not null check (bytes >= 0),
  -- The last body that alone is larger than the limit of an hour.
  large_at  timestamptz
) with (fillfactor = 80);
