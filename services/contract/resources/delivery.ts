import { z } from 'zod';
import { DELIVERY_STATES, TOPICS, TRIGGERS } from '../vocabulary.ts';
import { nullableId, nullableText, time } from './response-fields.ts';

/**
 * Deliveries of a webhook: an addition to the interface. They do not have the contents of requests and responses, which
 * only users with the permission may see.
 */

const at = () => z.string().meta({ format: 'date-time', description: 'YYYY-MM-DDThh:mm:ss+00:00' });
const milliseconds = (what: string) => z.int().min(0).nullable().meta({ description: what });

const timing = z
  .object({
    dns_ms: milliseconds('Resolving the name'),
    connect_ms: milliseconds('Connecting'),
    tls_ms: milliseconds('TLS handshake'),
    wait_ms: milliseconds('From the request, sent, to the first byte of the answer'),
    read_ms: milliseconds("From there to the answer's end"),
  })
  .meta({
    id: 'AttemptTiming',
    description: 'Null for what did not happen: a kept connection needs no name and no handshake',
  });

const attempt = z
  .object({
    number: z.int().min(1),
    at: at(),
    status: z.int().nullable().meta({ description: 'HTTP status; null without an answer' }),
    error: nullableText().meta({ description: 'For people; null on success' }),
    duration_ms: z.int().min(0),
    timing: timing.nullable(),
  })
  .meta({ id: 'DeliveryAttempt' });

export const delivery = z
  .object({
    id: z.string().meta({ description: 'The `webhook-id` header' }),
    event_id: z.string().meta({ description: 'The `X-Service-Event-Id` header' }),
    topic: z.enum(TOPICS),
    trigger: z.enum(TRIGGERS),
    state: z.enum(DELIVERY_STATES).meta({
      description:
        '`waiting` to be sent or tried again, `held` behind an inactive webhook, `delivered`, `exhausted` after its last attempt, `expired` after 30 days held, `dropped` with its webhook',
    }),
    test: z.boolean().meta({ description: 'Whether it is a test event' }),
    api_version: z.string().meta({ description: 'The version that shaped the payload' }),
    return_id: nullableId(),
    occurred_at: at().meta({ description: 'When the event happened: the order of the list' }),
    created_at: at(),
    next_attempt_at: time(),
    finished_at: time(),
    attempts: z.array(attempt).meta({ description: 'Oldest first, the last 50' }),
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
