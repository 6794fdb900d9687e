-- When the first call with the key began: what happened since may be its work. Of calls that are there
-- already it is not known, so anything may be.
alter table tool_calls add column begun_at timestamptz not null default 'epoch';
alter table tool_calls alter column begun_at set default now();
