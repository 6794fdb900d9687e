import { readFile } from 'node:fs/promises';
import { beforeAll, describe, expect, test } from '@jest/globals';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { returnDetailsView } from '../details/return-details.ts';
import type { OperationId } from '../operation.ts';
import { OPERATIONS } from '../operations.ts';
import { sampleEvent } from '../sample-event.ts';
import { shapePayload, shapeResponse } from '../shape.ts';
import { ACCEPTED, REFUSED } from '../testing/bodies.ts';
import { breakingChanges } from '../testing/growth.ts';
import { delivers, payloadOf } from '../topics/topics.ts';
import { isObject, type JsonObject } from '../validate/json-object.ts';
import { RELEASED, UNSTABLE } from '../versions.ts';
import { TOPICS, TRIGGERS } from '../vocabulary.ts';
import { type ChangelogLock, changelogLock, requireChangelogEntry } from './changelog-lock.ts';
import { openapiDocument } from './document.ts';

const VERSIONS = [...RELEASED, UNSTABLE];

/** The paths of the interface's limits (interface: Limits). `errors: {}` of an error response is a shape, not a limit. */
const OF_THE_INTERFACE =
  /assess post responses 200|AssessBody properties items$|properties (?:return_processor|note|comment) |images anyOf 0 items$|DestinationBody properties name$|MessageError/;

/** The paths of limits of additions, whose fields have the names of fields of the interface. */
const OF_AN_ADDITION = /ArrivedItemInput|UnexpectedItemInput|SubmittedItem/;

describe.each(VERSIONS)('the document of %s', (version) => {
  const document = openapiDocument(version);

  test('equals the committed file; after a change run `npm run docs`', async () => {
    const committed = await read(`../../../docs/openapi/${version}.json`);
    expect(document).toEqual(committed);
  });

  test('has every operation, with its scopes and its own mark', () => {
    for (const { id, path, method, scopes, addition } of OPERATIONS) {
      const operation = at(document, 'paths', path, method.toLowerCase());
      expect(operation).toMatchObject({
        ...{ operationId: id, 'x-scope': scopes[0] },
        'x-scopes': expect.arrayContaining([...scopes]),
      });
      expect('x-addition' in operation).toBe(addition);
    }
  });

  test('marks every limit of size and count that the interface does not have', () => {
    const bounded = boundedIn(document);
    expect(bounded.length).toBeGreaterThan(18);
    for (const [path, schema] of bounded) {
      const isOurs = OF_AN_ADDITION.test(path) || !OF_THE_INTERFACE.test(path);
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
    getPolicy: '200 401 429 500 503',
    listReturns: '200 401 422 429 500 503',
    getReturnDetails: '200 401 404 422 429 500 503',
    createFraudReport: '201 400 401 404 409 413 415 422 429 500 503',
    listExpected: '200 401 422 429 500 503',
    recordArrival: '200 201 400 401 404 409 413 415 422 429 500 503',
    getEligibility: '200 401 404 409 422 429 500 503',
    submitReturn: '200 201 400 401 404 409 413 415 422 429 500 503',
    listEffects: '200 401 404 429 500 503',
    cancelReturn: '200 400 401 404 409 413 415 422 429 500 503',
    getReturnTimeline: '200 401 404 422 429 500 503',
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

/** Rules that a schema cannot express, or has only in its description. */
const UNSAID =
  /NUL|16 KiB|twice|when (category|kind)|after from|RFC 3339|Base64|true, false or null|absent beside|which includes it|, or unexpected|, or tracking_number/;

describe.each([...RELEASED, UNSTABLE])('the schemas of %s', (version) => {
  const ajv = new Ajv2020({ strict: false, validateFormats: false });

  beforeAll(() => {
    ajv.addSchema({ $id: 'api', ...openapiDocument(version) });
  });

  const compiled = new Map<string, ReturnType<typeof ajv.compile>>();
  const valid = (pointer: string[], value: unknown) => {
    const path = pointer.map((part) => encodeURIComponent(escaped(part))).join('/');
    const check = compiled.get(path) ?? ajv.compile({ $ref: `api#/${path}` });
    compiled.set(path, check);
    return check(value);
  };
  const body = ['requestBody', 'content', 'application/json', 'schema'];
  const answer = (status: string) => ['responses', status, 'content', 'application/json', 'schema'];

  test.each(ACCEPTED)('%s: %s is a valid request', (operation, _name, request) => {
    expect(valid([...pointerOf(operation), ...body], request)).toBe(true);
  });

  test.each(REFUSED.filter(([, , message]) => !UNSAID.test(message)))(
    '%s: %j is no valid request',
    (operation, request) => {
      expect(valid([...pointerOf(operation), ...body], request)).toBe(false);
    },
  );

  test('the details of the sample return are a valid response, and those of another version are not', () => {
    const { snapshot } = sampleEvent('return.closed', 1n);
    if (!snapshot) throw new Error('the sample event has no snapshot');
    const pointer = [...pointerOf('getReturnDetails'), ...answer('200')];
    for (const shape of [...RELEASED, UNSTABLE]) {
      const details = shapeResponse(shape, 'getReturnDetails', returnDetailsView(snapshot));
      expect({ shape, valid: valid(pointer, details) }).toEqual({
        shape,
        valid: (shape === '2026-07') === (version === '2026-07'),
      });
    }
  });

  test('a response without one of its keys is not valid', () => {
    const { snapshot } = sampleEvent('return.closed', 1n);
    if (!snapshot) throw new Error('the sample event has no snapshot');
    const details = shapeResponse(version, 'getReturnDetails', returnDetailsView(snapshot));
    if (!isObject(details)) throw new Error('the details are no object');
    const pointer = [...pointerOf('getReturnDetails'), ...answer('200')];
    for (const key of Object.keys(details)) {
      const { [key]: _gone, ...rest } = details;
      expect({ key, valid: valid(pointer, rest) }).toEqual({ key, valid: false });
    }
  });

  test('process returns true or an object with errors', () => {
    const pointer = [...pointerOf('processReturn'), ...answer('200')];
    const refusal = { errors: { message: 'x', code: 'UNPROCESSABLE_FLAGGED_RETURN' } };
    expect([true, refusal].map((value) => valid(pointer, value))).toEqual([true, true]);
    const others = [false, {}, 'true', { errors: { message: 'x', code: 'OTHER' } }];
    expect(others.filter((value) => valid(pointer, value))).toEqual([]);
  });

  test('every sample payload is valid for its topic', () => {
    if (version === UNSTABLE) return;
    for (const topic of TOPICS) {
      for (const trigger of TRIGGERS.filter((name) => delivers(topic, name))) {
        const event = sampleEvent(trigger, 1n);
        const payload = payloadOf(topic, event, event.snapshot);
        const shaped = payload && shapePayload(version, topic, payload);
        const pointer = ['webhooks', topic, 'post', ...body];
        expect({ topic, trigger, valid: valid(pointer, shaped) }).toMatchObject({ valid: true });
      }
    }
  });
});

function pointerOf(id: OperationId): string[] {
  const operation = OPERATIONS.find((candidate) => candidate.id === id);
  if (!operation) throw new Error(`no operation ${id}`);
  return ['paths', operation.path, operation.method.toLowerCase()];
}

/** RFC 6901 section 3. */
function escaped(part: string): string {
  return part.replaceAll('~', '~0').replaceAll('/', '~1');
}

const text = (path: string) => readFile(new URL(path, import.meta.url), 'utf8');

test('a change of the public shape has an entry in docs/changelog.md; after both run `npm run docs`', async () => {
  const stored: ChangelogLock = JSON.parse(await text('changelog-lock.json'));
  const now = changelogLock(await text('../../../docs/changelog.md'));
  expect(() => requireChangelogEntry(stored, now)).not.toThrow();
  expect(now).toEqual(stored);
});

test('a changed shape without a changelog entry is rejected', () => {
  const before = { shape: 'a', changelog: 'x' };
  const check = (shape: string, changelog: string) => () =>
    requireChangelogEntry(before, { shape, changelog });
  expect(check('b', 'x')).toThrow(/docs\/changelog\.md/);
  expect(check('b', 'y')).not.toThrow();
  expect(check('a', 'y')).not.toThrow();
});
