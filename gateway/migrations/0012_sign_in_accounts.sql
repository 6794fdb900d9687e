-- The account of the identity provider that a member signs in with: `iss` and `sub` of its ID token. Null until
-- the first sign-in after this, and after a member was removed and added again, or was reset by the operator.
alter table memberships
  add column sign_in_issuer  text constraint memberships_sign_in_issuer_length check (char_length(sign_in_issuer) between 1 and 2048),
  add column sign_in_subject text constraint memberships_sign_in_subject_length check (char_length(sign_in_subject) between 1 and 1024),
  add constraint memberships_sign_in_whole check ((sign_in_issuer is null) = (sign_in_subject is null));
create index memberships_sign_in on memberships (sign_in_subject, sign_in_issuer) where sign_in_subject is not null;
