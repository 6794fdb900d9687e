import { z } from 'zod';
import {
  DELIVERY_STATES,
  type DeliveryState,
  TOPICS,
  TRIGGERS,
  type Trigger,
} from '../vocabulary.ts';
import { type Page, parametersIn, type QueryResult, readQuery } from './query.ts';
import { means, nullableId, nullableText, requiredTime, time } from './response-fields.ts';

/**
 * Deliveries of a webhook: an addition to the interface. They lack the contents of requests and responses, which only
 * users with the permission may see.
 */

const milliseconds = (what: string) => means(z.int().min(0).nullable(), `${what}, in milliseconds`);

const timing = z
  .object({
    dns_ms: milliseconds('Resolving the name'),
    connect_ms: milliseconds('Connecting'),
    tls_ms: milliseconds('TLS handshake'),
    wait_ms: milliseconds('From the end of the request to the first byte of the response'),
    read_ms: milliseconds('From there to the end of the response'),
  })
  .meta({
    id: 'AttemptTiming',
    description: 'Null for what did not happen: a kept connection needs no name and no handshake',
  });

const attempt = z
  .object({
    number: means(z.int().min(1), 'Running number of the attempt, from 1'),
    at: means(requiredTime(), 'When the request started'),
    status: means(z.int().nullable(), 'HTTP status of the response; null without one'),
    error: means(nullableText(), 'What went wrong, for people; null on success'),
    duration_ms: means(z.int().min(0), 'How long the attempt took, in milliseconds'),
    timing: means(timing.nullable(), 'Duration of each phase; null when it was not measured'),
  })
  .meta({ id: 'DeliveryAttempt' });

export const delivery = z
  .object({
    id: means(z.string(), 'The `webhook-id` header: the same in every attempt'),
    event_id: means(z.string(), 'The `X-Service-Event-Id` header: the same for all webhooks'),
    topic: means(z.enum(TOPICS), 'The topic for which the payload was shaped'),
    trigger: means(z.enum(TRIGGERS), 'The trigger of the event'),
    state: z.enum(DELIVERY_STATES).meta({
      description:
        '`waiting` to be sent or tried again, `held` behind an inactive webhook, `delivered`, `exhausted` after its last attempt, `expired` after 30 days held, `dropped` with its webhook',
    }),
    test: means(z.boolean(), 'Whether it is a test event'),
    api_version: means(z.string(), 'The API version that shaped the payload'),
    return_id: means(nullableId(), 'The return of the event; null when it is not about one'),
    occurred_at: means(requiredTime(), 'When the event happened: the order of the list'),
    created_at: means(requiredTime(), 'When the delivery was queued'),
    next_attempt_at: means(time(), 'When it is tried next; null when it is not waiting'),
    finished_at: means(time(), 'When it ended; null until then'),
    attempts: means(z.array(attempt), 'The last 50 attempts, oldest first'),
  })
  .meta({ id: 'Delivery' });
export type DeliveryObject = z.infer<typeof delivery>;

export const deliveryPage = z
  .object({
    deliveries: z.array(delivery).meta({ description: 'Newest event first' }),
    next_cursor: z.string().nullable().meta({
      description:
        '`cursor` of the next page; null on the last. A page may hold fewer than `limit`, or none, and not be the last',
    }),
  })
  .meta({ id: 'DeliveryPage' });
export type DeliveryPage = z.infer<typeof deliveryPage>;

/** Selects deliveries of a webhook, and a page of them. */
export interface DeliveriesQuery extends Page {
  readonly state: DeliveryState | undefined;
  readonly trigger: Trigger | undefined;
  /** Only deliveries whose event happened at or after this time. */
  readonly from: Date | undefined;
  /** Only deliveries whose event happened before this time. */
  readonly to: Date | undefined;
}

/** The parameters of the query. */
export const DELIVERIES_PARAMETERS = ['state', 'trigger', 'from', 'to', 'limit', 'cursor'] as const;

/** Parses the query of a webhook's deliveries. Each known parameter may occur once, and must not be empty. */
export function readDeliveriesQuery(query: URLSearchParams): QueryResult<DeliveriesQuery> {
  return readQuery(() => {
    const parameters = parametersIn(query, DELIVERIES_PARAMETERS);
    return {
      state: parameters.word('state', DELIVERY_STATES),
      trigger: parameters.word('trigger', TRIGGERS),
      ...parameters.period('from', 'to'),
      ...parameters.page(),
    };
  });
}
