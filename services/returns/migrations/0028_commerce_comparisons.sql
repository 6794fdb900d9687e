-- fits: 0.1.0
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
