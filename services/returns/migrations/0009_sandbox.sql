-- Shops on trial: production processes their returns with the embedded commerce provider, which moves no money.
alter table settings add column sandbox boolean not null default false;
