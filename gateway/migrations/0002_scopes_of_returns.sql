-- fits: 1.0.0
-- API keys that may only read returns, only submit them, or only receive goods. Code of 1.0.0 answers 401
-- to such a key.

alter table api_keys
  drop constraint api_keys_scopes_known,
  add constraint api_keys_scopes_known check (
    scopes <@ array['returns', 'returns:read', 'returns:submit', 'warehouse', 'carts', 'developer_tools',
                    'destinations:read', 'destinations:write', 'labels:write', 'giftcards:write']);
