-- fits: 0.1.0
-- Who last saw a signing secret, and when.
alter table subscriptions
  add column secret_shown_at timestamptz,
  add column secret_shown_kind text check (char_length(secret_shown_kind) <= 20),
  add column secret_shown_id text check (char_length(secret_shown_id) <= 200),
  add column secret_shown_name text check (char_length(secret_shown_name) <= 200);
