-- fits: 1.0.0

alter table orders
  -- The net value that all returns of the order may have together, by its newest look-up, and the two currencies of these
  -- amounts, such as `GBP JPY`. Null when it was not looked up.
  add column goods_limit amount,
  add column presentment_goods_limit amount,
  add column goods_limit_in text check (goods_limit_in ~ '^[A-Z]{3} [A-Z]{3}$'),
  add constraint orders_goods_limit
    check (num_nulls(goods_limit, presentment_goods_limit, goods_limit_in) in (0, 3));
