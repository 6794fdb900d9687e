-- The key of the call that last started it anew: a repeat of that call does not do so again.
alter table deliveries
  add column replay_key text check (char_length(replay_key) between 1 and 200);
