-- fits: 0.1.0
-- The status of a return's newest label, so that an index finds the returns that have it. Null without a label.
alter table returns add column label_status text
  check (label_status in ('new', 'pre_transit', 'in_transit', 'out_for_delivery', 'delivered', 'error', 'failure'));

-- Every writer of a label has locked its return.
create function set_label_status() returns trigger
language plpgsql set search_path from current
as $$
begin
  update returns r
     set label_status = newest.status
    from (select b.status from labels b
           where b.shop_id = new.shop_id and b.return_id = new.return_id
           order by b.created_at desc, b.id desc limit 1) newest
   where r.shop_id = new.shop_id and r.id = new.return_id and r.label_status is distinct from newest.status;
  return null;
end
$$;

create trigger set_label_status after insert or update of status, created_at on labels
for each row execute function set_label_status();
