-- What the purge of keys reads. A key that made a return is kept as long as the return, one that is
-- itself the id of a shipment as long as the shipment.
create index idempotency_keys_by_time on idempotency_keys (created_at)
  where operation not in ('SubmitReturn', 'RecordPartnerShipment');
