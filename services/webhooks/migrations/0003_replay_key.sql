-- The key of the call that last started it anew, at most 200 characters: a repeat of that call does not do
-- so again. A check would read the whole log while nobody else can.
alter table deliveries add column replay_key text;
