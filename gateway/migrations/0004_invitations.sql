-- fits: 1.0.0
-- People are invited: a membership begins when a person has signed in with the invited address and accepted. A row is one
-- link; a new link for the same person is a new row.

create table invitations (
  shop_id      bigint not null references shops (id),
  id           bigint generated always as identity (maxvalue 9007199254740991),
  email        text not null constraint invitations_email_form
               check (email = lower(email) and email ~ '^[^@[:space:]]+@[^@[:space:]]+$' and char_length(email) <= 320),
  name         text constraint invitations_name_length check (char_length(name) between 1 and 191),
  role         text not null constraint invitations_role_known
               check (role in ('owner', 'admin', 'returns_agent', 'warehouse', 'analyst', 'developer')),
  invited_by   bigint not null references users (id),
  -- SHA-256 of the token in the link. Null until a mail server gets the mail with the link: the token is made then, and
  -- stored nowhere.
  token_hash   bytea constraint invitations_token_hash_unique unique
               constraint invitations_token_hash_length check (octet_length(token_hash) = 32),
  -- The call that made the link, so that a repeat of the call makes no second one.
  creation_key text not null constraint invitations_creation_key_length check (char_length(creation_key) between 1 and 200),
  created_at   timestamptz not null default now(),
  expires_at   timestamptz not null,
  ended        text constraint invitations_ended_known check (ended in ('accepted', 'withdrawn', 'replaced')),
  ended_at     timestamptz,
  primary key (shop_id, id),
  constraint invitations_creation_key_unique unique (shop_id, creation_key),
  constraint invitations_ended_whole check ((ended is null) = (ended_at is null))
);
create unique index invitations_open on invitations (shop_id, email) where ended is null;
create index invitations_by_shop on invitations (shop_id, created_at);
create index invitations_by_email on invitations (email, created_at);
create index invitations_by_time on invitations (created_at);

-- The recipient of such a mail is no member yet.
alter table mails alter column user_id drop not null;
alter table mails add column invitation_id bigint;
alter table mails add constraint mails_recipient check ((user_id is null) = (invitation_id is not null));
alter table mails add constraint mails_invitation foreign key (shop_id, invitation_id)
  references invitations (shop_id, id) on delete cascade;
create unique index mails_by_invitation on mails (shop_id, invitation_id) where invitation_id is not null;
alter table mails drop constraint mails_kind_known;
alter table mails add constraint mails_kind_known check (kind in (
  'endpoint_failing', 'endpoint_disabled', 'endpoint_exhausted', 'secret_revealed', 'assistant_connected', 'app_installed',
  'invitation', 'owner_added'));

-- An opened invitation, until the person has signed in and decided.
alter table oauth_tickets drop constraint oauth_tickets_kind_known;
alter table oauth_tickets add constraint oauth_tickets_kind_known check (
  kind in ('AuthorizationCode', 'RefreshToken', 'Interaction', 'SignIn', 'SignedIn', 'PortalSignIn', 'SelfName',
           'OpenInvitation'));
