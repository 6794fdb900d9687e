-- fits: 0.1.0
-- The process that hands a row over, until due_at. It is null while none does, and stays as it was when a process of
-- the release before takes the row, which only moves due_at.
alter table handovers add column lease_token bigint;
