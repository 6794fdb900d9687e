-- fits: 1.0.0
alter table events add column tracestate text not null default '';
