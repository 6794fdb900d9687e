-- fits: 1.0.0
-- Work that one process at a time may do. A released lease has no row. Its next token comes from the sequence, so that
-- tokens grow over all acquisitions.
create sequence lease_tokens;

create table leases (
  name       text primary key check (char_length(name) between 1 and 200),
  owner      text not null check (char_length(owner) between 1 and 200),
  token      bigint not null,
  expires_at timestamptz not null
);
