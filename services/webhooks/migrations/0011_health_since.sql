-- fits: 0.1.0
-- When the address last changed, or a user activated the subscription: older attempts say nothing about its health.
-- Null for a subscription without such a change since this migration.
alter table subscriptions add column health_since timestamptz;
