-- fits: 0.1.0
-- Whether the user allowed the assistant only to read. The release before this one ignores the column, so such a
-- grant has all rights of its user there.
alter table oauth_grants add column read_only boolean not null default false;
