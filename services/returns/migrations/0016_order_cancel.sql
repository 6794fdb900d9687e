-- fits: 0.1.0
-- A return whose exchange order was made is cancelled by a job, which cancels the order first. Its state is a new one, so
-- that processes of the previous release do not take such a job and process the return.
alter table processing_jobs
  drop constraint processing_jobs_state_check,
  add constraint processing_jobs_state_check
    check (state in ('queued', 'running', 'cancelling', 'done', 'failed'));

drop index processing_jobs_one_live;
create unique index processing_jobs_one_live on processing_jobs (shop_id, return_id)
  where state in ('queued', 'running', 'cancelling');
drop index processing_jobs_due;
create index processing_jobs_due on processing_jobs (due_at) where state in ('queued', 'running', 'cancelling');
drop index processing_jobs_running;
create index processing_jobs_running on processing_jobs (shop_id) where state in ('running', 'cancelling');

-- The cancellation of an exchange order moves no money, so its amount is zero.
alter table processing_outcomes
  drop constraint processing_outcomes_kind_check,
  drop constraint processing_outcomes_amount_check,
  add constraint processing_outcomes_kind_check
    check (kind in ('exchange_order', 'gift_card', 'refund', 'restock', 'order_cancel')),
  add constraint processing_outcomes_amount_check check ((amount = 0) = (kind in ('restock', 'order_cancel')));

alter table commerce_ledger
  drop constraint commerce_ledger_kind_check,
  drop constraint commerce_ledger_amount_check,
  add constraint commerce_ledger_kind_check
    check (kind in ('exchange_order', 'gift_card', 'refund', 'restock', 'order_cancel')),
  add constraint commerce_ledger_amount_check check ((amount = 0) = (kind in ('restock', 'order_cancel')));
