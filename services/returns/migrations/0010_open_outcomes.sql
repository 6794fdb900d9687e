-- fits: 1.0.0
-- `asked_at` is in no index, not even in a condition, so that recording a request writes no index entry.
create index processing_outcomes_open on processing_outcomes (shop_id, return_id) where done_at is null;
