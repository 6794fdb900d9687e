-- The key that a tool gives to the service it calls. It lives as long as the claim: a repeat that takes
-- up a call whose end nobody saw gives the same one.
alter table tool_calls add column call_id uuid not null default gen_random_uuid();
