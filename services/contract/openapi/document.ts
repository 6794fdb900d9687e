import { createDocument, type ZodOpenApiObject } from 'zod-openapi';
import { EXAMPLE_AUTH_URL } from '../example-auth-url.ts';
import { isObject, type JsonObject } from '../json-object.ts';
import type { Operation } from '../operation.ts';
import { OPERATIONS } from '../operations.ts';
import { changesSince } from '../shape.ts';
import { UNSTABLE, UNSTABLE_WARNING } from '../versions.ts';
import { SHARED_HEADERS } from './headers.ts';
import { parametersOf } from './parameters.ts';
import { payloadSection } from './payload-section.ts';
import { responsesOf } from './responses.ts';

const INTRODUCTION = `Returns of a merchant: details, processing, dispositions, destinations, fraud reports, carts and webhooks. Operations marked \`x-addition\` and limits marked \`x-service-bound\` are additions of this service.

**Receiving webhooks.** Every message is signed after [Standard Webhooks](https://www.standardwebhooks.com): verify \`webhook-signature\` over the unchanged body with the secret that *Create webhook* returned (\`whsec_\` is part of it), and respond with any 2xx within 15 seconds. Otherwise the message is sent again, eleven times in total over three to four days, and later if \`Retry-After\` says so. A response of 410, or only failures for five days, makes the subscription inactive. A repeated \`webhook-id\` is the same message. Messages can arrive in another order: \`X-Service-Sequence\` grows with every change of one return. A payload has the shape of the shop's payload version, not of the version with which the subscription was made; \`X-Service-API-Version\` names it.`;

const CONTACT = { name: 'The support of the operator of this service' };
const LICENSE = { name: 'All rights reserved', identifier: 'LicenseRef-Proprietary' };

const TAGS = {
  Webhooks: 'Subscriptions to events, and the log of their deliveries',
  Dispositions: 'What a warehouse found and decided about returned line items',
  Destinations: 'Warehouses and donation centres that returns are sent to',
  Returns: 'Returns of a shop, their processing and their fraud reports',
  Labels: 'Shipping labels of returns, for their providers',
  'Gift cards': 'Gift cards of returns, for their providers',
  Carts: 'Carts of product variants, for a checkout',
  'Webhook payloads': 'The bodies that webhooks receive',
};

/**
 * The OpenAPI 3.1 document of one version, made from the table of operations. `version` is a released version or
 * `unstable`, which has no section about webhooks, because payloads never use it.
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
      info: {
        title: 'Returns Management Service',
        version,
        description: unstable ? `${INTRODUCTION}\n\n${UNSTABLE_WARNING}` : INTRODUCTION,
        contact: CONTACT,
        license: LICENSE,
      },
      servers: [{ url: `/api/${version}` }],
      tags: Object.entries(TAGS).map(([name, description]) => ({ name, description })),
      paths: pathsOf(unstable),
      ...(unstable ? {} : { webhooks: payloadSection(version) }),
      components: { securitySchemes: securitySchemes(), headers: SHARED_HEADERS },
    },
    {
      override: ({ jsonSchema }) => openToGrowth(jsonSchema),
      allowEmptySchema: { custom: true },
    },
  );
}

/** Interface: Authentication. */
function securitySchemes() {
  // The URL of some issuers ends with a slash.
  return {
    apiKey: { type: 'apiKey', in: 'header', name: 'X-Authorization' },
    partner: {
      type: 'oauth2',
      description:
        'Access token of a partner integration that acts for a merchant, sent as `Authorization: Bearer`',
      flows: {
        authorizationCode: {
          authorizationUrl: `${EXAMPLE_AUTH_URL}/authorize`,
          tokenUrl: `${EXAMPLE_AUTH_URL}/oauth/token`,
          scopes: {
            developer_tools: 'Access to developer tools including webhooks',
            'labels:write': 'Record labels and carrier updates',
            'giftcards:write': 'Record issued gift cards',
          },
        },
      },
    },
  } as const;
}

function pathsOf(unstable: boolean): NonNullable<ZodOpenApiObject['paths']> {
  const paths: Record<string, Record<string, object>> = {};
  for (const operation of OPERATIONS) {
    const item = paths[operation.path] ?? {};
    paths[operation.path] = item;
    item[operation.method.toLowerCase()] = operationObject(operation, unstable);
  }
  return paths;
}

function operationObject(operation: Operation, unstable: boolean): object {
  const parameters = parametersOf(operation);
  const { body, scope } = operation;
  return {
    operationId: operation.id,
    summary: operation.summary,
    description: `${operation.description}\n\nScope: \`${scope}\`.`,
    tags: [operation.tag],
    security: [
      { apiKey: [] },
      ...(operation.credentials === 'bearer-or-api-key' ? [{ partner: [scope] }] : []),
    ],
    'x-scope': scope,
    ...(operation.addition ? { 'x-addition': true } : {}),
    ...(parameters.length > 0 ? { parameters } : {}),
    ...(body
      ? {
          requestBody: {
            required: body.required,
            content: { 'application/json': { schema: body.schema } },
          },
        }
      : {}),
    responses: responsesOf(operation, unstable),
  };
}

/** Allows more properties in every object, because fields may be added at any time. */
function openToGrowth(schema: object): void {
  if ('additionalProperties' in schema && schema.additionalProperties === false) {
    Reflect.deleteProperty(schema, 'additionalProperties');
  }
}
