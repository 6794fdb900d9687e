-- Which app a grant was given to (the host that its code went to; many share one client id), and when it
-- was last used, to the minute.
alter table oauth_grants
  add column app text constraint oauth_grants_app_length check (char_length(app) between 1 and 255),
  add column last_used_at timestamptz;
