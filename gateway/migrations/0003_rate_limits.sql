-- Counters of rate limits, one row per limit and key. `expire` is milliseconds since 1970; it is a
-- double because the limiter library calculates with it as a number. The rows are worth nothing after
-- a crash, so they are not logged.

create unlogged table rate_limits (
  key    text primary key check (char_length(key) <= 400),
  points integer not null default 0,
  expire double precision
);
create index rate_limits_expire on rate_limits (expire);
