-- By whom a row was written: a look at the outbox that takes several pages keeps to what was
-- committed at its first, as a row that commits behind the page would else be overtaken by the next
-- of its key. The default is known when the column is added, so no row is written anew.
alter table outbox add column written_by xid8 not null default pg_current_xact_id();
