import { createDocument, type ZodOpenApiObject } from 'zod-openapi';
import { EXAMPLE_AUTH_URL } from '../example-urls.ts';
import { EXAMPLES } from '../examples/examples.ts';
import { isObject, type JsonObject } from '../json-object.ts';
import type { Operation } from '../operation.ts';
import { OPERATIONS } from '../operations.ts';
import { changesSince } from '../shape.ts';
import { UNSTABLE } from '../versions.ts';
import { exampleKeys } from './example-keys.ts';
import { sharedHeaders } from './headers.ts';
import { infoOf, serversOf } from './info.ts';
import { parametersOf } from './parameters.ts';
import { payloadSection } from './payload-section.ts';
import { responsesOf, sharedResponses } from './responses.ts';

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

/** Allows additional properties in every object, because fields may be added at any time. */
function openToGrowth(schema: object): void {
  if ('additionalProperties' in schema && schema.additionalProperties === false) {
    Reflect.deleteProperty(schema, 'additionalProperties');
  }
}
