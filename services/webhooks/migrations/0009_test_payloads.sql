-- fits: 0.1.0
-- Payloads of test events: each of their attempts says so in a header. Test events from before this column say nothing.
alter table payloads add column is_test boolean not null default false;
