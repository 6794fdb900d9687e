import { z } from 'zod';
import { createDocument, type ZodOpenApiObject } from 'zod-openapi';
import { ENVIRONMENT_HEADER } from '../environment.ts';
import { EXAMPLE_AUTH_URL, EXAMPLE_BASE_URL } from '../example-urls.ts';
import { EXAMPLES } from '../examples/examples.ts';
import { type Operation, TAGS } from '../operation.ts';
import { OPERATIONS, PARTNER_SCOPES } from '../operations.ts';
import { means } from '../resources/response-fields.ts';
import { sampleEvent } from '../sample-event.ts';
import { SCOPE_RULES, scopesOpening } from '../scopes.ts';
import { changesSince, shapePayload } from '../shape.ts';
import { TEST_HEADER } from '../test-header.ts';
import { payloadOf, TOPIC_SHAPES } from '../topics/topics.ts';
import { isObject, type JsonObject } from '../validate/json-object.ts';
import { UNSTABLE, UNSTABLE_WARNING } from '../versions.ts';
import { TOPICS, type Topic } from '../vocabulary.ts';
import { sharedHeaders } from './headers.ts';
import { parametersOf } from './parameters.ts';
import { exampleKeys, responsesOf, sharedResponses } from './responses.ts';

// The texts of an OpenAPI document about the whole API.

const INTRODUCTION = `Returns of a merchant: details, processing, dispositions, destinations, fraud reports, carts and webhooks. Operations marked \`x-addition\` and limits marked \`x-service-bound\` are additions of this service. The examples are about the demo shop of a local stack.

**Start here.** [Quickstart](${EXAMPLE_BASE_URL}/docs/quickstart): from a key to the first webhook, and a copy of all returns. [Storefronts and warehouses](${EXAMPLE_BASE_URL}/docs/storefront): from an order to goods that have arrived. [Errors](${EXAMPLE_BASE_URL}/docs/errors): how an error looks, and what to do about each code. [Webhooks](${EXAMPLE_BASE_URL}/docs/webhooks): which topic delivers which event. To try operations out, press *Authorize* and enter the API key alone.

**Receiving webhooks.** Every message is signed after [Standard Webhooks](https://www.standardwebhooks.com): verify \`webhook-signature\` over the unchanged body with the secret that *Create webhook* returned (\`whsec_\` is part of it), and respond with any 2xx within 15 seconds. Otherwise the message is sent again, eleven times in total over three to four days, and later if \`Retry-After\` says so. A response of 410, or only failures for five days, makes the subscription inactive. A repeated \`webhook-id\` is the same message. Messages can arrive in another order: \`X-Service-Sequence\` grows with every change of one return. A payload has the shape of the shop's payload version, not of the version with which the subscription was made; \`X-Service-API-Version\` names it.

**HTTP.** A request body may have \`Content-Encoding: gzip\`; its size counts after decompression. Responses are never compressed: \`Accept-Encoding\` changes nothing, and they have no \`Vary\`. They are not cached (\`Cache-Control: no-store\`) and have no \`ETag\`; conditional requests are answered in full. There is no CORS: an API key belongs on a server, and browsers cannot call the API from another origin. \`HEAD\` is answered as \`GET\` without the body, \`OPTIONS\` with 204 and \`Allow\`, another method with 405 and \`Allow\`.`;

/** The service has no public address but its documentation. The gateway replaces the host, see {@link serversOf}. */
const CONTACT = { name: 'Documentation of this service', url: `${EXAMPLE_BASE_URL}/docs` };
/** The license, as in package.json. */
const LICENSE = { name: 'Apache-2.0', identifier: 'Apache-2.0' };

/** The `info` of a document. @param unstable whether the version is the unstable one. */
function infoOf(version: string, unstable: boolean) {
  return {
    title: 'Returns Management Service',
    version,
    description: unstable ? `${INTRODUCTION}\n\n${UNSTABLE_WARNING}` : INTRODUCTION,
    contact: CONTACT,
    license: LICENSE,
  };
}

/** The `servers` of a document. The gateway replaces {@link EXAMPLE_BASE_URL} by its own address when it serves it. */
function serversOf(version: string) {
  return [
    { url: `/api/${version}`, description: 'The host that serves this document' },
    {
      url: `{base_url}/api/${version}`,
      description: 'Any host',
      variables: {
        base_url: {
          default: EXAMPLE_BASE_URL,
          description:
            'Base address of the service. `npm start -- --port 8080` serves a local stack at the default; a document that the service serves has its address',
        },
      },
    },
  ];
}

/**
 * Makes the OpenAPI 3.1 document of one version from the table of operations. `version` is a released version or
 * `unstable`. The document of `unstable` has no section about webhooks, because payloads never use it.
 */
export function openapiDocument(version: string): JsonObject {
  const newest = newestDocument(version);
  const document: JsonObject = JSON.parse(JSON.stringify(newest));
  const schemas = isObject(document.components) ? document.components.schemas : undefined;
  if (!isObject(schemas)) throw new Error('the document has no component schemas');
  for (const change of changesSince(version)) change.schemas(schemas);
  return document;
}

function newestDocument(version: string): object {
  const unstable = version === UNSTABLE;
  return createDocument(
    {
      openapi: '3.1.0',
      info: infoOf(version, unstable),
      servers: serversOf(version),
      tags: Object.entries(TAGS).map(([name, description]) => ({ name, description })),
      paths: pathsOf(version),
      ...(unstable ? {} : { webhooks: payloadSection(version) }),
      components: {
        securitySchemes: securitySchemes(),
        headers: sharedHeaders(unstable),
        responses: sharedResponses(OPERATIONS, version),
      },
    },
    {
      override: ({ jsonSchema }) => openToGrowth(jsonSchema),
      allowEmptySchema: { custom: true },
    },
  );
}

/** The security schemes (interface: Authentication). */
function securitySchemes() {
  return {
    apiKey: {
      type: 'apiKey',
      in: 'header',
      name: 'X-Authorization',
      description:
        'The key alone, `rms_…`, without `Bearer`, quotes or spaces. The shop creates it in the portal, with its scopes',
    },
    partner: {
      type: 'oauth2',
      description:
        'Access token of a partner integration that acts for a merchant, sent as `Authorization: Bearer`',
      flows: {
        authorizationCode: {
          authorizationUrl: `${EXAMPLE_AUTH_URL}/authorize`,
          tokenUrl: `${EXAMPLE_AUTH_URL}/oauth/token`,
          scopes: {
            ...Object.fromEntries(PARTNER_SCOPES.map((scope) => [scope, SCOPE_RULES[scope].text])),
            // As released: a released document keeps these texts.
            developer_tools: 'Access to developer tools including webhooks',
            'labels:write': 'Record labels and carrier updates',
            'giftcards:write': 'Record issued gift cards',
          },
        },
      },
    },
  } as const;
}

function pathsOf(version: string): NonNullable<ZodOpenApiObject['paths']> {
  const paths: Record<string, Record<string, object>> = {};
  for (const operation of OPERATIONS) {
    const item = paths[operation.path] ?? {};
    paths[operation.path] = item;
    item[operation.method.toLowerCase()] = operationObject(operation, version);
  }
  return paths;
}

function operationObject(operation: Operation, version: string): object {
  const parameters = parametersOf(operation);
  const { body } = operation;
  const scopes = scopesOpening(operation);
  const takesTokens = operation.credentials === 'bearer-or-api-key';
  return {
    operationId: operation.id,
    summary: operation.summary,
    description: `${operation.description}\n\n${scopeSentence(scopes)}`,
    tags: [operation.tag],
    // Each entry is enough, so one for each scope.
    security: [
      { apiKey: [] },
      ...(takesTokens ? scopes.map((scope) => ({ partner: [scope] })) : []),
    ],
    'x-scope': scopes[0],
    'x-scopes': scopes,
    ...(operation.addition ? { 'x-addition': true } : {}),
    ...(parameters.length > 0 ? { parameters } : {}),
    ...(body
      ? {
          requestBody: {
            required: body.required,
            content: {
              'application/json': {
                schema: body.schema,
                ...exampleKeys(EXAMPLES[operation.id].request),
              },
            },
          },
        }
      : {}),
    responses: responsesOf(operation, version),
  };
}

function scopeSentence(scopes: readonly string[]): string {
  const named = scopes.map((scope) => `\`${scope}\``);
  if (named.length === 1) return `Scope: ${named[0]}.`;
  return `Scopes, each of them is enough: ${named.join(', ')}.`;
}

/** Allows additional properties in every object, because fields may be added at any time. */
function openToGrowth(schema: object): void {
  if ('additionalProperties' in schema && schema.additionalProperties === false) {
    Reflect.deleteProperty(schema, 'additionalProperties');
  }
}

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
