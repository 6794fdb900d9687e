-- fits: 0.1.0
-- When the oldest request was sent whose outcome is not known. A repeat renews `asked_at`, but not the time until which
-- the provider keeps the key. Counts only while `asked_at` is not null. Null: the previous release recorded the request;
-- then `asked_at` counts.
alter table processing_outcomes add column first_asked_at timestamptz(3);
