-- fits: 0.1.0
-- Lists of returns by outcome, and of returns without a label.
create index returns_by_outcome on returns (shop_id, outcome, state, created_at desc, id desc);
create index returns_without_label on returns (shop_id, state, created_at desc, id desc)
  where label_status is null;
