-- fits: 0.1.0
-- The commerce provider may restock returned goods. A restock moves no money, so its amount is zero.
alter table settings
  drop constraint settings_restock_mode_check,
  add constraint settings_restock_mode_check check (restock_mode in ('off', 'webhook', 'provider'));

alter table processing_outcomes
  drop constraint processing_outcomes_kind_check,
  drop constraint processing_outcomes_amount_check,
  add constraint processing_outcomes_kind_check
    check (kind in ('exchange_order', 'gift_card', 'refund', 'restock')),
  add constraint processing_outcomes_amount_check check ((amount = 0) = (kind = 'restock'));

alter table commerce_ledger
  drop constraint commerce_ledger_kind_check,
  drop constraint commerce_ledger_amount_check,
  add constraint commerce_ledger_kind_check
    check (kind in ('exchange_order', 'gift_card', 'refund', 'restock')),
  add constraint commerce_ledger_amount_check check ((amount = 0) = (kind = 'restock'));
