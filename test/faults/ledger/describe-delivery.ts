import type { System } from '../system/system.ts';
import type { Due } from './balance.ts';

/** Describes the stored state of a missing delivery, to help find the cause. */
export async function describeDelivery({ pool, sink }: System, due: Due): Promise<string> {
  const { rows } = await pool.query<{ found: object }>(STATE, [due.eventId]);
  const receipts = sink.arrivals.at(due.path).filter(({ eventId }) => eventId === due.eventId);
  const seen = receipts.map(({ at, endedAt, accepted, answered, fault }) => ({
    at: new Date(at),
    ...(endedAt !== undefined && { endedAt: new Date(endedAt) }),
    accepted,
    answered,
    fault,
  }));
  const stored = JSON.stringify(rows[0]?.found);
  return `${due.trigger} ${due.eventId} for ${due.path}, stored ${new Date(due.at).toISOString()}: ${stored}; at the sink ${JSON.stringify(seen)}`;
}

const STATE = `
select json_build_object(
  'event', (select json_build_object('shop', e.shop_id, 'position', e.position, 'key', e.key)
              from returns.events e where e.event_id = $1),
  'unpublished', (select count(*) from returns.outbox o join returns.events e
                    on e.shop_id = o.shop_id and e.position = o.position where e.event_id = $1),
  'consumed', (select json_agg(c.consumed_at) from webhooks.consumed_events c where c.event_id = $1),
  'poison', (select count(*) from webhooks.poison_records),
  'deliveries', (select json_agg(json_build_object('subscription', d.subscription_id, 'id', d.id, 'ended', d.ended,
                          'created', d.created_at, 'finished', d.finished_at,
                          'queued', (select json_agg(q) from webhooks.queue q where q.shop_id = d.shop_id and q.id = d.id),
                          'subscription_queue', (select row_to_json(l) from webhooks.subscription_queues l
                                    where l.shop_id = d.shop_id and l.subscription_id = d.subscription_id),
                          'attempts', (select json_agg(json_build_object('at', a.started_at, 'status', a.status, 'error', a.error))
                                         from webhooks.attempts a where a.shop_id = d.shop_id and a.delivery_id = d.id)))
                   from webhooks.payloads p
                   join webhooks.deliveries d on d.shop_id = p.shop_id and d.payload_id = p.id
                  where p.event_id = $1),
  'leases', (select count(*) from webhooks.leases where expires_at > clock_timestamp()),
  'now', clock_timestamp()) as found`;
