-- fits: 0.1.0
-- Reports from before the trigger, as far as timelines reach: 400 days.
update returns r
   set fraud_reported_at = earliest.occurred_at
  from (select shop_id, return_id, min(occurred_at) as occurred_at from timeline
         where kind = 'fraud_report.created' group by shop_id, return_id) earliest
 where r.shop_id = earliest.shop_id and r.id = earliest.return_id and r.fraud_reported_at is null;
