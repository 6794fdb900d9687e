-- fits: 1.0.0
-- The statements of 1.0.0 read processing_jobs_one_live. This is not in 0008, because `drop` would wait there for calls
-- that wait for the new indexes.
drop index processing_jobs_due, processing_jobs_running;
