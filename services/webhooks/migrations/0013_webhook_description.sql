-- fits: 0.1.0
-- What a subscription is for, in the words of the shop; empty for none. Code without this column adds none.
alter table subscriptions
  add column description text not null default '' check (char_length(description) <= 200);
