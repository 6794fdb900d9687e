-- Whether shipping and its tax were given for the return, or follow from its lines: what follows is
-- derived anew by an edit. Of earlier returns nobody knows: theirs stays as it is.
alter table returns
  add column shipping_given boolean not null default true,
  add column shipping_tax_given boolean not null default true;
