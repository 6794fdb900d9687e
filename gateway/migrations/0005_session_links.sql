-- fits: 1.0.0
-- A session works only in memberships that its account was linked to at the sign-in: a person who is removed and added
-- again must sign in again, and an old cookie stays dead.

-- Changes when an account is unlinked, so that the next link has another value.
alter table memberships add column link uuid not null default gen_random_uuid();

-- The links at the sign-in. Null for sessions of before.
alter table portal_sessions add column links uuid[];
