-- fits: 0.1.0
-- The deliveries that a replay or a backfill has queued. The maintenance deletes them before their job.
create table job_deliveries (
  shop_id     bigint not null check (shop_id between 1 and 9007199254740991),
  job_id      bigint not null check (job_id between 1 and 9007199254740991),
  delivery_id uuid not null,
  primary key (shop_id, job_id, delivery_id),
  constraint job_deliveries_job foreign key (shop_id, job_id) references replay_jobs (shop_id, id) on delete cascade
);
