-- fits: 0.1.0
-- The program through which a user acted, such as `portal`; empty when unknown.
alter table timeline add column actor_through text not null default ''
  constraint timeline_actor_through_length check (char_length(actor_through) <= 200);
