-- fits: 1.0.0
-- Workers search for jobs without a lease. A job that runs at once never was one, so it has no entry in their index.
create index processing_jobs_waiting on processing_jobs (due_at) where finished_at is null and lease_token is null;
create index processing_jobs_leased on processing_jobs (shop_id, due_at) where finished_at is null and lease_token is not null;
