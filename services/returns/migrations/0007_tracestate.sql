-- fits: 1.0.0
alter table processing_jobs add column tracestate text not null default '';
