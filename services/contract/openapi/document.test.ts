import { readFile } from 'node:fs/promises';
import { describe, expect, test } from '@jest/globals';
import { isObject, type JsonObject } from '../json-object.ts';
import { OPERATIONS } from '../operations.ts';
import { breakingChanges } from '../testing/growth.ts';
import { RELEASED, UNSTABLE } from '../versions.ts';
import { TOPICS } from '../vocabulary.ts';
import { openapiDocument } from './document.ts';

const VERSIONS = [...RELEASED, UNSTABLE];

/** The paths of the interface's limits (interface: Limits). `errors: {}` of an error response is a shape, not a limit. */
const OF_THE_INTERFACE =
  /assess post responses 200|AssessBody properties items$|properties (?:return_processor|note|comment) |images anyOf 0 items$|DestinationBody properties name$|MessageError/;

describe.each(VERSIONS)('the document of %s', (version) => {
  const document = openapiDocument(version);

  test('equals the committed file; after a change run `npm run docs`', async () => {
    const committed = await read(`../../../docs/openapi/${version}.json`);
    expect(document).toEqual(committed);
  });

  test('has every operation, with its scope and its own mark', () => {
    for (const { id, path, method, scope, addition } of OPERATIONS) {
      const operation = at(document, 'paths', path, method.toLowerCase());
      expect(operation).toMatchObject({ operationId: id, 'x-scope': scope });
      expect('x-addition' in operation).toBe(addition);
    }
  });

  test('marks every limit of size and count that the interface does not have', () => {
    const bounded = boundedIn(document);
    expect(bounded.length).toBeGreaterThan(18);
    for (const [path, schema] of bounded) {
      const isOurs = !OF_THE_INTERFACE.test(path);
      expect([path, 'x-service-bound' in schema]).toEqual([path, isOurs]);
    }
  });

  test('returns errors as problem documents only when it is unstable', () => {
    for (const { path, method } of OPERATIONS) {
      const responses = at(document, 'paths', path, method.toLowerCase(), 'responses');
      for (const [status, response] of Object.entries(responses)) {
        if (Number(status) < 400 || !isObject(response)) continue;
        const [, name] = /^#\/components\/responses\/(.+)$/.exec(String(response.$ref)) ?? [];
        const shared = name && at(document, 'components', 'responses', name);
        const media = version === UNSTABLE ? 'application/problem+json' : 'application/json';
        expect(Object.keys(at(shared || response, 'content'))).toEqual([media]);
      }
    }
  });

  test('describes the payload of every topic, unless it is unstable', () => {
    const section = document.webhooks;
    if (version === UNSTABLE) expect(section).toBeUndefined();
    else expect(Object.keys(isObject(section) ? section : {})).toEqual([...TOPICS]);
  });
});

test.each(RELEASED)(
  'the released document of %s only grows; `write.ts --release` makes it',
  async (version) => {
    const released = await read(`released/${version}.json`);
    expect(breakingChanges(released, openapiDocument(version))).toEqual([]);
  },
);

test('the statuses of an operation are those that its checks can return', () => {
  const document = openapiDocument('2026-10');
  const statuses = Object.fromEntries(
    OPERATIONS.map(({ id, path, method }) => {
      return [
        id,
        Object.keys(at(document, 'paths', path, method.toLowerCase(), 'responses')).join(' '),
      ];
    }),
  );
  expect(statuses).toEqual({
    listWebhooks: '200 401 429 500 503',
    createWebhook: '201 400 401 413 415 422 429 500 503',
    getWebhook: '200 401 404 429 500 503',
    updateWebhook: '204 400 401 404 413 415 422 429 500 503',
    deleteWebhook: '204 401 404 429 500 503',
    listDeliveries: '200 401 404 422 429 500 503',
    retryDeliveries: '200 401 404 409 422 429 500 503',
    replayDelivery: '200 401 404 409 429 500 503',
    testWebhook: '201 400 401 404 409 413 415 422 429 500 503',
    rotateWebhookSecret: '200 400 401 404 413 415 422 429 500 503',
    getWebhookSecret: '200 401 404 429 500 503',
    endEarlierSecrets: '204 401 404 429 500 503',
    previewReplay: '200 400 401 409 413 415 422 429 500 503',
    startReplay: '201 400 401 409 413 415 422 429 500 503',
    listReplays: '200 401 422 429 500 503',
    getReplay: '200 401 404 429 500 503',
    cancelReplay: '200 401 404 429 500 503',
    assessDispositions: '200 400 401 403 413 415 422 429 500 503',
    gradeItems: '200 400 401 403 413 415 422 429 500 503',
    listDestinations: '200 401 429 500 503',
    getDestination: '200 401 404 429 500 503',
    updateDestination: '200 400 401 404 413 415 422 429 500 503',
    listReturns: '200 401 422 429 500 503',
    getReturnDetails: '200 401 404 422 429 500 503',
    createFraudReport: '201 400 401 404 409 413 415 422 429 500 503',
    listEffects: '200 401 404 429 500 503',
    recordLabel: '201 400 401 404 409 413 415 422 429 500 503',
    updateLabel: '200 400 401 404 413 415 422 429 500 503',
    recordGiftCard: '201 400 401 404 409 413 415 422 429 500 503',
    processReturn: '200 400 401 404 413 415 422 429 500 503',
    createCart: '200 400 401 413 415 422 429 500 503',
    getCart: '200 401 404 429 500 503',
  });
});

test('2026-07 describes condition_category as a word, 2026-10 as an object', () => {
  const category = (version: string) =>
    at(
      openapiDocument(version),
      'components',
      'schemas',
      'Condition',
      'properties',
      'condition_category',
    );
  expect(category('2026-07')).toMatchObject({ anyOf: [{ type: 'string' }, { type: 'null' }] });
  expect(category('2026-10')).toMatchObject({ anyOf: [{ type: 'object' }, { type: 'null' }] });
});

const BOUNDS = ['maxLength', 'maxItems', 'maxProperties'];

/** Every schema below `value` that limits a size or a count, by its path. */
function boundedIn(value: unknown, path: readonly string[] = []): [string, object][] {
  if (typeof value !== 'object' || value === null) return [];
  const own: [string, object][] = BOUNDS.some((name) => name in value)
    ? [[path.join(' '), value]]
    : [];
  const inner = Object.entries(value).flatMap(([key, one]) => boundedIn(one, [...path, key]));
  return [...own, ...inner];
}

async function read(path: string): Promise<JsonObject> {
  return JSON.parse(await readFile(new URL(path, import.meta.url), 'utf8'));
}

function at(value: JsonObject, ...keys: string[]): JsonObject {
  return keys.reduce<JsonObject>((inner, key) => {
    const next = inner[key];
    if (!isObject(next)) throw new Error(`the document has no ${keys.join(' > ')}`);
    return next;
  }, value);
}
