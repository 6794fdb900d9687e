-- fits: 0.1.0
-- The name that a program on a user's machine gives itself. Nobody verified it: it never identifies the program.
alter table oauth_grants
  add column self_name text constraint oauth_grants_self_name_length check (char_length(self_name) between 1 and 60);

-- Names of registrations wait for their sign-in as one-time records.
alter table oauth_tickets
  drop constraint oauth_tickets_kind_known,
  add constraint oauth_tickets_kind_known check (
    kind in ('AuthorizationCode', 'RefreshToken', 'Interaction', 'SignIn', 'SignedIn', 'PortalSignIn', 'SelfName'));
