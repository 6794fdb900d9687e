-- Ids leave as JSON numbers, which carry no more than 2^53 - 1 exactly.
alter table payloads add constraint payloads_shop_id_range check (shop_id between 1 and 9007199254740991);
alter table payloads add constraint payloads_return_id_range check (return_id between 1 and 9007199254740991);
alter table deliveries add constraint deliveries_return_id_range check (return_id between 1 and 9007199254740991);
alter table redacted_returns add constraint redacted_returns_shop_id_range check (shop_id between 1 and 9007199254740991);
alter table redacted_returns add constraint redacted_returns_return_id_range check (return_id between 1 and 9007199254740991);
