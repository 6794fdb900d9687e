-- fits: 1.0.0
-- The page of each shop where shoppers find their orders. Without a handle there is none.
alter table settings
  add column page_handle        text not null default '' check (page_handle ~ '^([a-z0-9-]{3,40})?$'),
  add column page_url           text not null default '' check (char_length(page_url) <= 200),
  add column page_accent        text not null default '' check (page_accent ~ '^(#[0-9a-f]{6})?$'),
  add column page_support_email text not null default '' check (char_length(page_support_email) <= 320);
create unique index settings_page_handle_once on settings (page_handle) where page_handle <> '';

-- The ends of the links with which shoppers follow their returns. A request is compared with hashes alone.
create table status_links (
  shop_id    public_id not null,
  token_hash bytea not null check (octet_length(token_hash) = 32),
  return_id  bigint not null,
  primary key (shop_id, token_hash),
  foreign key (shop_id, return_id) references returns (shop_id, id) on delete cascade
);
create index status_links_by_return on status_links (shop_id, return_id);
