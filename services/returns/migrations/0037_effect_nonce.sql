-- fits: 0.1.0
-- A random value of the return, which is part of the keys of its effects. A database that was restored, or promoted
-- without the last commits, gives the id of a lost return again. Without this value the new return would get the keys of
-- the lost one, and the provider would answer with the effects of the lost one. Null: the return is older, and its keys
-- have no such value.
alter table returns add column effect_nonce uuid;
alter table returns alter column effect_nonce set default gen_random_uuid();

-- A return has at most one effect of each kind, whatever its key. During an update, a process of the previous release
-- plans another key than this release. It fails on this index, and the job is tried again. An effect that it has planned
-- first keeps its key.
create unique index processing_outcomes_one_of_kind on processing_outcomes (shop_id, return_id, kind);
