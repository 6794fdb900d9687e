-- fits: 0.1.0
-- Counts what the commerce provider has reported of the return's order. Processing requests money only if nothing came
-- since it looked.
alter table returns add column provider_news integer not null default 0;
