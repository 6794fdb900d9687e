-- One row per named job that is being worked on. Released rows are deleted; tokens come from a
-- sequence, so that they grow over every acquisition all the same.
create sequence lease_tokens;

create table leases (
  name       text primary key check (char_length(name) between 1 and 200),
  owner      text not null check (char_length(owner) between 1 and 200),
  token      bigint not null,
  expires_at timestamptz not null
);
