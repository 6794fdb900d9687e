-- fits: 0.1.0
-- Keys of gift-card providers: they record the cards that they issued, and can do nothing else.
alter table api_keys
  drop constraint api_keys_scopes_known,
  add constraint api_keys_scopes_known check (
    scopes <@ array['returns', 'carts', 'developer_tools', 'destinations:read', 'destinations:write', 'labels:write',
                    'giftcards:write']);
