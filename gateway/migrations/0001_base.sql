-- fits: 1.0.0
-- Shops, the people who work in them, and what may call the API in their name.

create table users (
  id         bigint generated always as identity (maxvalue 9007199254740991) primary key,
  email      text not null constraint users_email_unique unique
             constraint users_email_form check (email = lower(email) and email ~ '^[^@[:space:]]+@[^@[:space:]]+$' and char_length(email) <= 320),
  name       text constraint users_name_length check (char_length(name) between 1 and 191),
  created_at timestamptz not null default now()
);

create table shops (
  id            bigint generated always as identity (maxvalue 9007199254740991) primary key,
  name          text not null constraint shops_name_length check (char_length(name) between 1 and 191),
  currency      text not null constraint shops_currency_form check (currency ~ '^[A-Z]{3}$'),
  founder_id    bigint not null references users (id),
  -- Sandbox shops move no money. Responses to their callers say so, and only keys of sandboxes work there.
  sandbox       boolean not null default false,
  created_at    timestamptz not null default now(),
  -- Null until the services have the shop's settings; `shop create` run again finishes that.
  configured_at timestamptz,
  constraint shops_founder_name_unique unique (founder_id, name)
);

create table memberships (
  shop_id         bigint not null references shops (id),
  user_id         bigint not null references users (id),
  role            text not null constraint memberships_role_known
                  check (role in ('owner', 'admin', 'returns_agent', 'warehouse', 'analyst', 'developer')),
  -- The account of the identity provider that a member signs in with: `iss` and `sub` of its ID token. Null until the
  -- first sign-in, and after a member was removed and added again, or was reset by the operator.
  sign_in_issuer  text constraint memberships_sign_in_issuer_length check (char_length(sign_in_issuer) between 1 and 2048),
  sign_in_subject text constraint memberships_sign_in_subject_length check (char_length(sign_in_subject) between 1 and 1024),
  created_at      timestamptz not null default now(),
  primary key (shop_id, user_id),
  constraint memberships_sign_in_whole check ((sign_in_issuer is null) = (sign_in_subject is null))
);
create index memberships_user on memberships (user_id);
create index memberships_sign_in on memberships (sign_in_subject, sign_in_issuer) where sign_in_subject is not null;

create table api_keys (
  shop_id         bigint not null references shops (id),
  key_id          text not null constraint api_keys_key_id_unique unique
                  constraint api_keys_key_id_form check (key_id ~ '^[a-z0-9]{12}$'),
  secret_hash     bytea not null constraint api_keys_secret_hash_length check (octet_length(secret_hash) = 32),
  -- Keys of label providers and of gift-card providers can only record labels with carrier updates, and issued cards.
  scopes          text[] not null constraint api_keys_scopes_known check (
                    scopes <@ array['returns', 'carts', 'developer_tools', 'destinations:read', 'destinations:write',
                                    'labels:write', 'giftcards:write']),
  description     text not null constraint api_keys_description_length check (char_length(description) <= 191),
  rest_per_minute integer constraint api_keys_rest_per_minute_range check (rest_per_minute between 1 and 1000000),
  -- Whether the key was made for a sandbox: its text then begins with `rms_test_`.
  sandbox         boolean not null default false,
  created_by_kind text not null constraint api_keys_created_by_kind_length check (char_length(created_by_kind) <= 20),
  created_by_id   text not null constraint api_keys_created_by_id_length check (char_length(created_by_id) <= 200),
  -- The call that made the key, so that a repeat of the call makes no second key. Null for a call without a key.
  creation_key    text constraint api_keys_creation_key_length check (char_length(creation_key) between 1 and 200),
  creation_hash   bytea constraint api_keys_creation_hash_length check (octet_length(creation_hash) = 32),
  -- The key that replaced this one in a rotation.
  replaced_by     text constraint api_keys_replaced_by_form check (replaced_by ~ '^[a-z0-9]{12}$'),
  created_at      timestamptz not null default now(),
  last_used_at    timestamptz,
  expires_at      timestamptz,
  revoked_at      timestamptz,
  primary key (shop_id, key_id)
);
create unique index api_keys_creation on api_keys (shop_id, creation_key) where creation_key is not null;
-- Which keys are new, for the gateway's filter of key ids.
create index api_keys_created on api_keys (created_at, key_id);

-- Partner apps that may call the API for a shop.
create table installations (
  shop_id    bigint not null references shops (id),
  issuer     text not null constraint installations_issuer_length check (char_length(issuer) between 1 and 2048),
  client_id  text not null constraint installations_client_id_length check (char_length(client_id) between 1 and 200),
  created_at timestamptz not null default now(),
  primary key (shop_id, issuer, client_id)
);

-- Which credential called which version of the REST API on which day.
create table version_usage (
  shop_id         bigint not null references shops (id),
  credential_kind text not null constraint version_usage_kind_known check (credential_kind in ('api_key', 'partner_app')),
  credential_id   text not null constraint version_usage_credential_id_length check (char_length(credential_id) between 1 and 200),
  -- As in the path: `2026-07`, `v1`, `unstable`; empty when it was left out.
  requested       text not null constraint version_usage_requested_length check (char_length(requested) <= 20),
  day             date not null,
  requests        bigint not null,
  last_operation  text not null constraint version_usage_operation_length check (char_length(last_operation) <= 200),
  last_at         timestamptz not null,
  primary key (shop_id, credential_kind, credential_id, requested, day)
);
create index version_usage_day on version_usage (day);

-- Counters of rate limits, one row for each limit and key. They are worth nothing after a crash, so they are not logged.
create unlogged table rate_limits (
  key    text primary key check (char_length(key) <= 400),
  points integer not null default 0,
  -- Milliseconds since 1970. A double, because the library of the limits calculates with it as a number.
  expire double precision
);
create index rate_limits_expire on rate_limits (expire);

-- Who did what, from where, to which object. Append only: the process may add rows, nothing else.
create table audit_log (
  shop_id    bigint not null references shops (id),
  id         bigint generated always as identity (maxvalue 9007199254740991),
  at         timestamptz not null default now(),
  actor_kind text not null constraint audit_log_actor_kind_known
             check (actor_kind in ('user', 'api_key', 'partner_app', 'service', 'system')),
  actor_id   text not null constraint audit_log_actor_id_length check (char_length(actor_id) between 1 and 200),
  actor_name text not null constraint audit_log_actor_name_length check (char_length(actor_name) <= 200),
  source     text constraint audit_log_source_length check (char_length(source) between 1 and 200),
  -- The HTTP request; null for what no request did, such as a command.
  request_id text constraint audit_log_request_id_length check (char_length(request_id) between 1 and 128),
  action     text not null constraint audit_log_action_length check (char_length(action) between 1 and 100),
  subject    text not null constraint audit_log_subject_length check (char_length(subject) <= 500),
  detail     jsonb not null default '{}'::jsonb,
  primary key (shop_id, id)
);
-- For the purge.
create index audit_log_at on audit_log (at);
create index audit_log_by_time on audit_log (shop_id, at, id);
-- Reads by an actor, an action or a changed object would otherwise read all entries of the shop until they have found
-- enough.
create index audit_log_by_actor on audit_log (shop_id, actor_id, at, id);
create index audit_log_by_action on audit_log (shop_id, action, at, id);
create index audit_log_by_subject on audit_log (shop_id, subject, at, id);

-- The only way of the process to delete entries. It deletes those that are older than 13 months, oldest first and at most
-- so many, so that no statement is without bounds.
create function purge_audit_log(most integer) returns bigint
language plpgsql security definer set search_path from current
as $$
declare
  purged bigint;
begin
  delete from audit_log where (shop_id, id) in (
    select shop_id, id from audit_log where at < now() - interval '13 months'
     order by at limit most for update skip locked);
  get diagnostics purged = row_count;
  return purged;
end
$$;

revoke all on function purge_audit_log(integer) from public;

do $$
declare
  process text := 'rms_' || current_schema();
begin
  execute format('revoke update, delete, truncate on audit_log from %I', process);
  execute format('grant execute on function purge_audit_log(integer) to %I', process);
end
$$;

-- Sign-in of assistants: signing keys, grants, and what stands between a request and its tokens.

-- One key signs. Replaced ones verify until the last token that they signed has expired.
create table oauth_keys (
  kid         text primary key constraint oauth_keys_kid_length check (char_length(kid) between 1 and 64),
  public_jwk  jsonb not null,
  -- The private key as JWK, encrypted with the key of the keyring that `key_id` names.
  key_id      text not null,
  sealed      bytea not null,
  created_at  timestamptz not null default now(),
  replaced_at timestamptz
);
create unique index oauth_keys_one_signs on oauth_keys ((true)) where replaced_at is null;

-- A user let a client act in one shop. Every code, refresh token and access token belongs to a grant and ends with it.
create table oauth_grants (
  shop_id      bigint not null references shops (id),
  -- It is no secret: access tokens have it.
  id           text not null constraint oauth_grants_id_unique unique
               constraint oauth_grants_id_length check (char_length(id) between 20 and 64),
  user_id      bigint not null references users (id),
  client_id    text not null constraint oauth_grants_client_id_length check (char_length(client_id) between 1 and 2048),
  -- The host to which the code went: many apps share one client id.
  app          text constraint oauth_grants_app_length check (char_length(app) between 1 and 255),
  -- The name that a program on a user's machine gives itself. Nobody verified it: it never identifies the program.
  self_name    text constraint oauth_grants_self_name_length check (char_length(self_name) between 1 and 60),
  -- Whether the user allowed the assistant only to read.
  read_only    boolean not null default false,
  -- When the user was asked and agreed. Null for a grant that was made without asking, because the same app had a grant
  -- with consent. Also null after such a grant was revoked, so that the next sign-in asks again.
  consented_at timestamptz,
  created_at   timestamptz not null default now(),
  -- To the minute.
  last_used_at timestamptz,
  expires_at   timestamptz not null,
  revoked_at   timestamptz,
  primary key (shop_id, id)
);
create index oauth_grants_user on oauth_grants (user_id);
create index oauth_grants_expires on oauth_grants (expires_at);

-- One-time records: codes, refresh tokens, sign-ins that are not complete, and the names of registrations until their
-- sign-in. Sign-ins to the portal have a kind of their own, so that no other sign-in can use them. A row is found by the
-- hash of an id that only the other side has, and its content is encrypted with a key made from that id. So nobody can
-- read either of them here.
create table oauth_tickets (
  kind        text not null constraint oauth_tickets_kind_known check (
                kind in ('AuthorizationCode', 'RefreshToken', 'Interaction', 'SignIn', 'SignedIn', 'PortalSignIn', 'SelfName')),
  id_hash     bytea not null constraint oauth_tickets_id_hash_length check (octet_length(id_hash) = 32),
  sealed      bytea not null constraint oauth_tickets_sealed_length check (octet_length(sealed) <= 65536),
  grant_id    text references oauth_grants (id) on delete cascade,
  created_at  timestamptz not null default now(),
  expires_at  timestamptz not null,
  consumed_at timestamptz,
  primary key (kind, id_hash)
);
create index oauth_tickets_grant on oauth_tickets (grant_id) where grant_id is not null;
create index oauth_tickets_expires on oauth_tickets (expires_at);

-- Sessions of the merchant's portal. The browser has a random id; a row has only its SHA-256.
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

-- Calls of tools that came with an idempotency key: a repeat gets the output of the first call.
create table tool_calls (
  shop_id         bigint not null references shops (id),
  user_id         bigint not null references users (id),
  idempotency_key text not null constraint tool_calls_key_length check (char_length(idempotency_key) between 1 and 200),
  tool            text not null constraint tool_calls_tool_length check (char_length(tool) between 1 and 100),
  request_hash    bytea not null constraint tool_calls_hash_length check (octet_length(request_hash) = 32),
  -- The idempotency key of the call to the service. It lives as long as the row: a repeat that continues a call with an
  -- unknown end uses the same key.
  call_id         uuid not null default gen_random_uuid(),
  -- When the call was last begun. It is in the past when the end is not known, so that a repeat may continue the call.
  started_at      timestamptz not null default now(),
  -- The output; null until the call has ended.
  answer          json,
  primary key (shop_id, user_id, idempotency_key)
);
create index tool_calls_started on tool_calls (started_at);

-- E-mails to members, one row for each recipient. The address is read when a mail is sent. A process works on a mail
-- under a lease, see services/platform/leases/leases.ts.
create sequence mail_tokens;

create table mails (
  shop_id        bigint not null references shops (id),
  id             bigint generated always as identity (maxvalue 9007199254740991),
  user_id        bigint not null references users (id),
  kind           text not null constraint mails_kind_known check (kind in (
                   'endpoint_failing', 'endpoint_disabled', 'endpoint_exhausted', 'secret_revealed', 'assistant_connected')),
  -- What the mail is about, such as `endpoint:5`. Later facts about it join a mail that no process has taken yet.
  subject        text not null check (char_length(subject) between 1 and 1000),
  facts          jsonb not null check (jsonb_typeof(facts) = 'array' and jsonb_array_length(facts) between 1 and 100),
  is_gathering   boolean not null default true,
  created_at     timestamptz not null default now(),
  -- The next try, or the expiry of the lease.
  due_at         timestamptz not null,
  lease_token    bigint,
  -- Tries that ended without a result.
  attempts       smallint not null default 0 check (attempts >= 0),
  -- When a server began to take the content. Only the process that wrote it knows the result; nobody sends the mail again.
  handed_over_at timestamptz,
  ended          text constraint mails_ended_known check (ended in ('sent', 'failed', 'unknown', 'dropped')),
  ended_at       timestamptz,
  error          text not null default '' check (char_length(error) <= 500),
  primary key (shop_id, id),
  constraint mails_ended_whole check ((ended is null) = (ended_at is null))
);
create unique index mails_gathering on mails (shop_id, user_id, kind, subject) where is_gathering;
create index mails_due on mails (due_at) where ended is null;
create index mails_ended on mails (ended_at) where ended is not null;

-- A subject that had its mail of the day (UTC). Facts that may be sent once a day are suppressed for the rest of it.
create table mail_days (
  shop_id bigint not null references shops (id),
  subject text not null check (char_length(subject) between 1 and 1000),
  day     date not null,
  primary key (shop_id, subject, day)
);
create index mail_days_by_day on mail_days (day);
