-- fits: 0.1.0
-- Labels from before the trigger. A return whose label changes during this statement has the trigger's value.
update returns r
   set label_status = newest.status
  from (select distinct on (b.shop_id, b.return_id) b.shop_id, b.return_id, b.status from labels b
         order by b.shop_id, b.return_id, b.created_at desc, b.id desc) newest
 where r.shop_id = newest.shop_id and r.id = newest.return_id and r.label_status is null;
