-- The tax on shipping is a part of refund_shipping, and the shipping of a return is that of its lines. What is
-- stored says so from here on; no refund changes.
update return_lines
   set refund_shipping = refund_shipping + refund_shipping_tax,
       presentment_refund_shipping = presentment_refund_shipping + presentment_refund_shipping_tax
 where refund_shipping_tax > 0 or presentment_refund_shipping_tax > 0;

-- Where another sum was given for the return, its lines share that: what is missing goes to the first line, what
-- is too much is taken from the last ones.
with measured as (
  select l.shop_id, l.id, row_number() over lines as place,
         r.shipping, l.refund_shipping as own,
         sum(l.refund_shipping) over lines as upto, sum(l.refund_shipping) over whole as total,
         r.presentment_shipping, l.presentment_refund_shipping as presentment_own,
         sum(l.presentment_refund_shipping) over lines as presentment_upto,
         sum(l.presentment_refund_shipping) over whole as presentment_total
    from return_lines l
    join returns r on r.shop_id = l.shop_id and r.id = l.return_id
   where l.removed_at is null
  window whole as (partition by l.shop_id, l.return_id),
         lines as (partition by l.shop_id, l.return_id order by l.position)
), shared as (
  select shop_id, id,
         least(upto, shipping) - least(upto - own, shipping)
           + case place when 1 then greatest(shipping - total, 0) else 0 end as shipping,
         least(presentment_upto, presentment_shipping)
           - least(presentment_upto - presentment_own, presentment_shipping)
           + case place when 1 then greatest(presentment_shipping - presentment_total, 0) else 0 end
           as presentment_shipping
    from measured
   where shipping <> total or presentment_shipping <> presentment_total
)
update return_lines l
   set refund_shipping = s.shipping,
       refund_shipping_tax = least(l.refund_shipping_tax, s.shipping),
       presentment_refund_shipping = s.presentment_shipping,
       presentment_refund_shipping_tax = least(l.presentment_refund_shipping_tax, s.presentment_shipping)
  from shared s
 where l.shop_id = s.shop_id and l.id = s.id;

update returns r
   set shipping_tax = l.tax, presentment_shipping_tax = l.presentment_tax
  from (select shop_id, return_id, sum(refund_shipping_tax) as tax,
               sum(presentment_refund_shipping_tax) as presentment_tax
          from return_lines where removed_at is null
         group by shop_id, return_id) l
 where r.shop_id = l.shop_id and r.id = l.return_id
   and (r.shipping_tax, r.presentment_shipping_tax) is distinct from (l.tax, l.presentment_tax);

-- Both columns stay for the release before; nothing reads them any more.
comment on column returns.shipping_given is 'unused since 0010';
comment on column returns.shipping_tax_given is 'unused since 0010';

-- Units that the order has of the line; null when the submission did not say.
alter table return_lines
  add column ordered_quantity integer check (ordered_quantity between 1 and 1000000),
  add constraint return_lines_shipping_tax_part check (
    refund_shipping_tax <= refund_shipping
    and presentment_refund_shipping_tax <= presentment_refund_shipping);
-- Other returns of an order line.
create index return_lines_by_order_line on return_lines (shop_id, provider_line_item_id);

-- A return that expired in review goes back there if it opens again.
alter table returns
  drop constraint returns_flagged_in_review,
  add constraint returns_flagged_in_review
    check (state in ('review', 'expired') or cardinality(flag_reasons) = 0);

-- What the last failed run was given, for the next one.
create index processing_jobs_by_return on processing_jobs (shop_id, return_id, id) where state = 'failed';
