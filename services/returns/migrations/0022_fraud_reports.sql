-- fits: 0.1.0
-- When a return was reported as fraud, so that an index finds the returns that were. Null without a report.
alter table returns add column fraud_reported_at timestamptz(3);
create index returns_by_fraud_report on returns (shop_id, state, created_at desc, id desc)
  where fraud_reported_at is not null;

-- Every report has one entry in the timeline, also when the previous release writes it.
create function set_fraud_reported_at() returns trigger
language plpgsql set search_path from current
as $$
begin
  update returns set fraud_reported_at = new.occurred_at
   where shop_id = new.shop_id and id = new.return_id and fraud_reported_at is null;
  return null;
end
$$;

create trigger set_fraud_reported_at after insert on timeline
for each row when (new.kind = 'fraud_report.created') execute function set_fraud_reported_at();
