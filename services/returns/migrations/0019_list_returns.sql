-- fits: 0.1.0
-- Lists of returns by state, in the order of submission or of the last change; for a destination; by label status.
create index returns_by_state_created on returns (shop_id, state, created_at desc, id desc);
create index returns_by_state_updated on returns (shop_id, state, updated_at desc, id desc);
create index returns_by_destination on returns (shop_id, destination_id, state, created_at desc, id desc)
  where destination_id is not null;
create index returns_by_label_status on returns (shop_id, label_status, state, created_at desc, id desc)
  where label_status is not null;
