-- Which keys are new, for the gateway's filter of key ids.

create index api_keys_created on api_keys (created_at, key_id);
