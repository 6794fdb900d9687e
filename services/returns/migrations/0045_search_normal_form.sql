-- fits: 0.1.0
-- Searches compare texts in their normal form. Each index replaces the one of the stored text. The previous release
-- searches without them until it is replaced, within the returns of one shop.
drop index returns_by_email;
create index returns_by_email on returns (shop_id, lower(normal_form(customer_email))) where customer_email is not null;
drop index return_lines_by_sku;
create index return_lines_by_sku on return_lines (shop_id, normal_form(sku)) where sku <> '';
drop index labels_by_tracking;
create index labels_by_tracking on labels (shop_id, normal_form(tracking_number)) where tracking_number <> '';

do $$
declare
  trigrams text := (select n.nspname from pg_extension e join pg_namespace n on n.oid = e.extnamespace
                     where e.extname = 'pg_trgm');
begin
  drop index return_lines_by_title;
  execute format('create index return_lines_by_title on return_lines using gin (lower(normal_form(title)) %I.gin_trgm_ops)',
                 trigrams);
  drop index returns_by_customer_name;
  execute format($index$
    create index returns_by_customer_name on returns
     using gin (lower(normal_form(coalesce(customer_first_name, '') || ' ' || coalesce(customer_last_name, ''))) %I.gin_trgm_ops)
     where customer_first_name is not null or customer_last_name is not null$index$, trigrams);
end
$$;
