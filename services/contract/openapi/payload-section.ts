import { z } from 'zod';
import { ENVIRONMENT_HEADER } from '../environment.ts';
import { means } from '../resources/response-fields.ts';
import { sampleEvent } from '../sample-event.ts';
import { shapePayload } from '../shape.ts';
import { TEST_HEADER } from '../test-header.ts';
import { payloadOf, TOPIC_SHAPES } from '../topics/topics.ts';
import { TOPICS, type Topic } from '../vocabulary.ts';

const SAMPLE_SHOP = 1n;

const HEADERS: readonly (readonly [string, string])[] = [
  ['webhook-id', 'The delivery; the same on every retry and replay'],
  ['webhook-timestamp', 'Unix seconds of this attempt'],
  ['webhook-signature', '`v1,` and Base64 of HMAC-SHA256; several during a rotation of the secret'],
  ['User-Agent', 'Begins with `Returns-Management-Service/`'],
  ['X-Service-API-Version', 'The version that shaped the payload'],
  [
    'Sunset',
    'When this version retires: an HTTP date (RFC 8594). Only once the version is deprecated',
  ],
  ['X-Service-Event', 'The trigger'],
  ['X-Service-Event-Id', 'The event; the same for all subscriptions'],
  ['X-Service-Sequence', "The return's revision: sort deliveries of one return by it"],
  [ENVIRONMENT_HEADER, '`sandbox` for a sandbox shop; a live shop never has it'],
  [TEST_HEADER, '`true` for a test event, whose data is a sample; a real event never has it'],
  ['traceparent', 'Trace of this attempt (W3C Trace Context)'],
];
const OPTIONAL: readonly string[] = [
  'Sunset',
  'X-Service-Sequence',
  ENVIRONMENT_HEADER,
  TEST_HEADER,
  'traceparent',
];

/** The section `webhooks`: one entry for each topic, with its triggers and a sample for each trigger. */
export function payloadSection(version: string): Record<string, Record<string, object>> {
  return Object.fromEntries(
    TOPICS.map((topic) => [topic, { post: payloadOperation(topic, version) }]),
  );
}

/** The schema of a topic's payload, in the newest form. */
export function payloadSchema(topic: Topic): z.ZodType {
  const { triggers, schema } = TOPIC_SHAPES[topic];
  const name = topic.split('.').map((part) => `${part[0]?.toUpperCase()}${part.slice(1)}`);
  return z
    .object({
      topic: means(z.literal(topic), 'The topic of the subscription'),
      trigger: means(z.enum(triggers), 'The event that happened'),
      ...schema,
    })
    .meta({ id: `${name.join('')}Payload` });
}

function payloadOperation(topic: Topic, version: string): object {
  return {
    operationId: `on.${topic}`,
    summary: `Payload of topic ${topic}`,
    tags: ['Webhook payloads'],
    security: [],
    parameters: HEADERS.map(([name, description]) => ({
      name,
      in: 'header',
      required: !OPTIONAL.includes(name),
      description,
      schema: { type: 'string' },
    })),
    requestBody: {
      required: true,
      content: {
        'application/json': { schema: payloadSchema(topic), examples: samples(topic, version) },
      },
    },
    responses: {
      '2XX': {
        description:
          'Received. Any other status, and no response within 15 seconds, is a failure and is retried. After 410, or failures for five days, the webhook becomes inactive and its deliveries wait',
      },
    },
  };
}

function samples(topic: Topic, version: string): Record<string, object> {
  return Object.fromEntries(
    TOPIC_SHAPES[topic].triggers.map((trigger) => {
      const event = sampleEvent(trigger, SAMPLE_SHOP);
      const payload = payloadOf(topic, event, event.snapshot);
      return [trigger, { value: payload && shapePayload(version, topic, payload) }];
    }),
  );
}
