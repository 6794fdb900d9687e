-- fits: 0.1.0
-- The test events of each subscription, newest first. They are few among all deliveries, so that the index is small.
create index deliveries_tests on deliveries (shop_id, subscription_id, id) where is_test;
