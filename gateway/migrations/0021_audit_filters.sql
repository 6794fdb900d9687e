-- fits: 0.1.0
-- The audit log of a shop by who did something, and by what was done. Reads by an actor or an action would otherwise read
-- all entries of the shop until they have found enough.
create index audit_log_by_actor on audit_log (shop_id, actor_id, at, id);
create index audit_log_by_action on audit_log (shop_id, action, at, id);
