-- fits: 0.1.0
-- Searching for a part of a shopper's name reads an index instead of every return.
do $$
begin
  execute format($index$
    create index returns_by_customer_name on returns
     using gin (lower(coalesce(customer_first_name, '') || ' ' || coalesce(customer_last_name, '')) %I.gin_trgm_ops)
     where customer_first_name is not null or customer_last_name is not null$index$,
    (select n.nspname from pg_extension e join pg_namespace n on n.oid = e.extnamespace
      where e.extname = 'pg_trgm'));
end
$$;
