-- fits: 0.1.0
-- Sessions of the merchant's portal. The browser holds a random id; a row has only its SHA-256.
create table portal_sessions (
  -- Names the session in lists. It is no secret.
  id           uuid primary key default gen_random_uuid(),
  token_hash   bytea not null constraint portal_sessions_token_hash_unique unique
               constraint portal_sessions_token_hash_length check (octet_length(token_hash) = 32),
  user_id      bigint not null references users (id),
  shop_id      bigint not null references shops (id),
  -- The account of the identity provider. A session works only in memberships that are linked to this account.
  issuer       text not null constraint portal_sessions_issuer_length check (char_length(issuer) between 1 and 2048),
  subject      text not null constraint portal_sessions_subject_length check (char_length(subject) between 1 and 1024),
  source       text constraint portal_sessions_source_length check (char_length(source) between 1 and 200),
  device       text not null constraint portal_sessions_device_length check (char_length(device) <= 100),
  created_at   timestamptz not null default now(),
  last_used_at timestamptz not null default now(),
  expires_at   timestamptz not null
);
create index portal_sessions_user on portal_sessions (user_id, last_used_at desc);
create index portal_sessions_expires on portal_sessions (expires_at);

-- Sign-ins to the portal are one-time records of their own kind, so that no other sign-in can use them.
alter table oauth_tickets
  drop constraint oauth_tickets_kind_known,
  add constraint oauth_tickets_kind_known check (
    kind in ('AuthorizationCode', 'RefreshToken', 'Interaction', 'SignIn', 'SignedIn', 'PortalSignIn'));
