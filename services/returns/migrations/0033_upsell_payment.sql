-- fits: 0.1.0
-- How the shopper pays what the exchange costs above the return credit.
alter table returns
  add column upsell_payment text not null default 'invoice'
    check (upsell_payment in ('invoice', 'prepaid')),
  add column upsell_payment_reference text not null default ''
    check (char_length(upsell_payment_reference) <= 191);

-- What the shopper must still pay of an exchange order in the ledger.
alter table commerce_ledger add column due amount not null default 0;
