-- fits: 1.0.0
-- The acknowledgement of a withdrawal goes to the address that the shopper stated, and says what the shopper declared.
alter table mails add column declaration jsonb check (pg_column_size(declaration) <= 8192);
alter table mails drop constraint mails_recipient;
alter table mails add constraint mails_recipient check (num_nonnulls(user_id, invitation_id, declaration) = 1);
create unique index mails_by_declaration on mails (shop_id, subject) where declaration is not null;
create index mails_by_declared_address on mails (lower(declaration ->> 'email'), created_at) where declaration is not null;
alter table mails drop constraint mails_kind_known;
alter table mails add constraint mails_kind_known check (kind in (
  'endpoint_failing', 'endpoint_disabled', 'endpoint_exhausted', 'secret_revealed', 'assistant_connected', 'app_installed',
  'invitation', 'owner_added', 'new_device', 'api_key_made', 'withdrawal_received'));
