-- Every write of the REST API has entries as well: which request it was, and an index to read a shop's
-- entries by time.
alter table audit_log add column request_id text
  constraint audit_log_request_id_length check (char_length(request_id) between 1 and 128);
create index audit_log_by_time on audit_log (shop_id, at, id);
