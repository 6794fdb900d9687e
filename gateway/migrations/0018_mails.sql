-- fits: 0.1.0
-- E-mails to members, one row for each recipient. The address is read when a mail is sent. A process works on a mail
-- under a lease, see services/platform/job-lease.ts.
create sequence mail_tokens;

create table mails (
  shop_id        bigint not null references shops (id),
  id             bigint generated always as identity (maxvalue 9007199254740991),
  user_id        bigint not null references users (id),
  kind           text not null constraint mails_kind_known check (kind in (
                   'endpoint_failing', 'endpoint_disabled', 'endpoint_exhausted', 'secret_revealed', 'assistant_connected')),
  -- What the mail is about, such as `endpoint:5`. Later facts about it join a mail that no process has taken yet.
  subject        text not null check (char_length(subject) between 1 and 1000),
  facts          jsonb not null check (jsonb_typeof(facts) = 'array' and jsonb_array_length(facts) between 1 and 100),
  is_gathering   boolean not null default true,
  created_at     timestamptz not null default now(),
  -- The next try, or the expiry of the lease.
  due_at         timestamptz not null,
  lease_token    bigint,
  -- Tries that ended without a result.
  attempts       smallint not null default 0 check (attempts >= 0),
  -- When a server began to take the content. Only the process that wrote it knows the result; nobody sends the mail again.
  handed_over_at timestamptz,
  ended          text constraint mails_ended_known check (ended in ('sent', 'failed', 'unknown', 'dropped')),
  ended_at       timestamptz,
  error          text not null default '' check (char_length(error) <= 500),
  primary key (shop_id, id),
  constraint mails_ended_whole check ((ended is null) = (ended_at is null))
);
create unique index mails_gathering on mails (shop_id, user_id, kind, subject) where is_gathering;
create index mails_due on mails (due_at) where ended is null;
create index mails_ended on mails (ended_at) where ended is not null;

-- A subject that had its mail of the day (UTC). Facts that may be sent once a day are suppressed for the rest of it.
create table mail_days (
  shop_id bigint not null references shops (id),
  subject text not null check (char_length(subject) between 1 and 1000),
  day     date not null,
  primary key (shop_id, subject, day)
);
create index mail_days_by_day on mail_days (day);
