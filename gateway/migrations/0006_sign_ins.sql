-- fits: 1.0.0
-- The browsers and systems that people have signed in to the portal with, so that a sign-in with another one is noticed.
create table sign_in_devices (
  user_id    bigint not null references users (id),
  device     text not null constraint sign_in_devices_device_length check (char_length(device) <= 100),
  created_at timestamptz not null default now(),
  primary key (user_id, device)
);

-- Those of the open sessions, so that the first sign-in after the update is compared with something.
insert into sign_in_devices (user_id, device) select distinct user_id, device from portal_sessions;

-- For a sign-out at the identity provider, which names the account.
create index portal_sessions_account on portal_sessions (subject, issuer);

alter table mails drop constraint mails_kind_known;
alter table mails add constraint mails_kind_known check (kind in (
  'endpoint_failing', 'endpoint_disabled', 'endpoint_exhausted', 'secret_revealed', 'assistant_connected', 'app_installed',
  'invitation', 'owner_added', 'new_device', 'api_key_made'));
