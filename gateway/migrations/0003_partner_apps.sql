-- fits: 1.0.0
-- Partners' apps, and the authorization server that lets them act for a shop.

-- The operator registers an app once. A shop installs it by the consent of a member.
create table partner_apps (
  client_id     text primary key constraint partner_apps_client_id_form check (client_id ~ '^[A-Za-z0-9._-]{1,100}$'),
  name          text not null constraint partner_apps_name_length check (char_length(name) between 1 and 100),
  redirect_uris text[] not null constraint partner_apps_redirect_uris_length
                check (cardinality(redirect_uris) between 1 and 20 and char_length(array_to_string(redirect_uris, '')) <= 10000),
  scopes        text[] not null constraint partner_apps_scopes_length
                check (cardinality(scopes) between 1 and 50 and char_length(array_to_string(scopes, '')) <= 2000),
  website       text constraint partner_apps_website_length check (char_length(website) between 1 and 500),
  logo          text constraint partner_apps_logo_length check (char_length(logo) between 1 and 500),
  -- An app without a secret, such as a page: it gets no refresh tokens.
  is_public     boolean not null default false,
  created_at    timestamptz not null default now(),
  -- From then on its tokens and sign-ins are rejected. The row stays, because the id must never name another app.
  removed_at    timestamptz
);

-- The secrets with which an app proves itself. One is current; replaced ones work until they expire.
create table partner_app_secrets (
  client_id   text not null references partner_apps (client_id),
  secret_hash bytea not null constraint partner_app_secrets_hash_length check (octet_length(secret_hash) = 32),
  created_at  timestamptz not null default now(),
  expires_at  timestamptz,
  primary key (client_id, secret_hash)
);
create unique index partner_app_secrets_current on partner_app_secrets (client_id) where expires_at is null;

-- The keys of the server of partners, like `oauth_keys`. No key signs the tokens of both servers.
create table partner_keys (
  kid         text primary key constraint partner_keys_kid_length check (char_length(kid) between 1 and 64),
  public_jwk  jsonb not null,
  -- The private key as JWK, encrypted with the key of the keyring that `key_id` names.
  key_id      text not null,
  sealed      bytea not null,
  created_at  timestamptz not null default now(),
  replaced_at timestamptz
);
create unique index partner_keys_one_signs on partner_keys ((true)) where replaced_at is null;

-- A member let an app act in a shop. Codes, refresh tokens and access tokens belong to a grant and end with it. A grant
-- ends with its installation.
create table partner_grants (
  shop_id        bigint not null references shops (id),
  -- It is no secret: access tokens have it.
  id             text not null constraint partner_grants_id_unique unique
                 constraint partner_grants_id_length check (char_length(id) between 20 and 64),
  issuer         text not null,
  client_id      text not null references partner_apps (client_id),
  user_id        bigint not null references users (id),
  -- What the app may do.
  scopes         text[] not null constraint partner_grants_scopes_length check (cardinality(scopes) <= 50),
  -- What the app asked for, and the member may not allow. An owner may.
  waiting_scopes text[] not null default '{}'::text[] constraint partner_grants_waiting_length check (cardinality(waiting_scopes) <= 50),
  created_at     timestamptz not null default now(),
  expires_at     timestamptz not null,
  revoked_at     timestamptz,
  primary key (shop_id, id),
  foreign key (shop_id, issuer, client_id) references installations (shop_id, issuer, client_id) on delete cascade
);
create index partner_grants_app on partner_grants (shop_id, issuer, client_id);
create index partner_grants_user on partner_grants (shop_id, user_id);
create index partner_grants_expires on partner_grants (expires_at);
create index partner_grants_created on partner_grants (created_at);

-- One-time records of this server, like `oauth_tickets`.
create table partner_tickets (
  kind        text not null constraint partner_tickets_kind_known
              check (kind in ('AuthorizationCode', 'RefreshToken', 'Interaction', 'SignIn', 'SignedIn')),
  id_hash     bytea not null constraint partner_tickets_id_hash_length check (octet_length(id_hash) = 32),
  sealed      bytea not null constraint partner_tickets_sealed_length check (octet_length(sealed) <= 65536),
  grant_id    text references partner_grants (id) on delete cascade,
  created_at  timestamptz not null default now(),
  expires_at  timestamptz not null,
  consumed_at timestamptz,
  primary key (kind, id_hash)
);
create index partner_tickets_grant on partner_tickets (grant_id) where grant_id is not null;
create index partner_tickets_expires on partner_tickets (expires_at);

-- For the removal of an app, which ends its installations in every shop.
create index installations_app on installations (client_id, issuer);

alter table mails drop constraint mails_kind_known;
alter table mails add constraint mails_kind_known check (kind in (
  'endpoint_failing', 'endpoint_disabled', 'endpoint_exhausted', 'secret_revealed', 'assistant_connected',
  'app_installed'));
