-- How often a worker's lease on the job ran out, since the job last made progress: a job that ends its
-- worker every time must not run for ever.
alter table processing_jobs add column takeovers integer not null default 0 check (takeovers >= 0);
