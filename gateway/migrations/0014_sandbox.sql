-- fits: 0.1.0
-- Sandbox shops move no money. Responses to their callers say so, and only keys of sandboxes work there.
alter table shops add column sandbox boolean not null default false;
-- Whether the key was made for a sandbox: its text then begins with `rms_test_`.
alter table api_keys add column sandbox boolean not null default false;
