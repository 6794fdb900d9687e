-- fits: 1.0.0
-- What a shop takes back, and how. Each change is a new version, and the newest is in force. A version never changes,
-- because returns name the one that judged them.

create table policies (
  shop_id       public_id not null,
  version       public_id not null,
  -- rms.returns.v1.Policy as proto JSON, in the form of `canonical` in services/returns/policy/validate.ts.
  policy        jsonb not null check (octet_length(policy::text) <= 1048576),
  created_at    timestamptz(3) not null default now(),
  actor_kind    text not null check (actor_kind in ('user', 'api_key', 'partner_app', 'service', 'system')),
  actor_id      text not null check (char_length(actor_id) between 1 and 200),
  actor_name    text not null default '' check (char_length(actor_name) <= 200),
  actor_through text not null default '' check (char_length(actor_through) <= 200),
  primary key (shop_id, version)
);

alter table returns
  -- The version of the policy that judged the return; 0 for a shop without one, null for a return that was not judged.
  add column policy_version bigint check (policy_version between 0 and 9007199254740991),
  -- What the provider knew of the order, for the preview of a policy: its times and country, and the tags of the lines in
  -- the return by their ids. Null when the order was not looked up.
  add column order_facts jsonb,
  -- The credential that submitted the return, if only some credentials may see it: `storefront_key`, or `app:` and the
  -- client id of the app of a partner. Null when any credential of the shop that sees returns may see it.
  add column submitter text check (char_length(submitter) between 1 and 300),
  -- When processing was first queued, by anybody. A policy queues only a return that was never queued.
  add column queued_at timestamptz(3);

-- The returns of a shopper since some day.
drop index returns_by_email;
create index returns_by_email on returns (shop_id, lower(normal_form(customer_email)), created_at desc, id desc)
  where customer_email is not null;
-- The shoppers who have a fraud report.
create index returns_reported_by_email on returns (shop_id, lower(normal_form(customer_email)))
  where customer_email is not null and fraud_reported_at is not null;
