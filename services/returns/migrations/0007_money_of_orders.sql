-- fits: 1.0.0

alter table orders
  -- What all returns of the order may pay together after refunds by the merchant, by its newest look-up, and the currency
  -- that the shopper paid in. Null while no such refund was reported, or the order was not looked up.
  add column money_limit amount,
  add column money_limit_in currency_code,
  add constraint orders_money_limit check ((money_limit is null) = (money_limit_in is null));
