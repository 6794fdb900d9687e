-- fits: 0.1.0
-- What an order paid for shipping, with its tax, and the two currencies of these amounts, such as `GBP JPY`. Null when
-- unknown.
alter table orders
  add column paid_shipping amount,
  add column presentment_paid_shipping amount,
  add column paid_shipping_in text check (paid_shipping_in ~ '^[A-Z]{3} [A-Z]{3}$'),
  add constraint orders_paid_shipping
    check (num_nulls(paid_shipping, presentment_paid_shipping, paid_shipping_in) in (0, 3));
