-- What the purge of keys reads. A key that made a return is kept as long as the return.
create index idempotency_keys_by_time on idempotency_keys (created_at) where operation <> 'SubmitReturn';
