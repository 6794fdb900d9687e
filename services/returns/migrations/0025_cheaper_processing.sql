-- fits: 0.1.0
-- Marking a return as queued (`processing`) changes no indexed column. With free space in the page of the row,
-- PostgreSQL then writes no index entry. Applies to pages that are filled from now on.
alter table returns set (fillfactor = 85);

-- Processing asks for the unknown outcomes of one return. By the shop alone it would also read the dead entries of every
-- return that the shop has processed since the last vacuum.
drop index processing_outcomes_unknown;
create index processing_outcomes_unknown on processing_outcomes (shop_id, return_id)
  where asked_at is not null and done_at is null;
