-- fits: 0.1.0
-- The audit log of a shop by the changed object, such as all entries of a return.
create index audit_log_by_subject on audit_log (shop_id, subject, at, id);
