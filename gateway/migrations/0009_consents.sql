-- When the person behind a grant was asked and agreed; null for a grant that was made without asking, because the
-- same app has a grant that was agreed to, or because it is from before everybody was asked.
alter table oauth_grants add column consented_at timestamptz;

-- Grants end after 90 days now, also those that were made for a year.
update oauth_grants set expires_at = created_at + interval '90 days'
 where expires_at > created_at + interval '90 days';
