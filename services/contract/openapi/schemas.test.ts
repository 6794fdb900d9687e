import { beforeAll, describe, expect, test } from '@jest/globals';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { returnDetailsView } from '../details/return-details.ts';
import { isObject } from '../json-object.ts';
import type { OperationId } from '../operation.ts';
import { OPERATIONS } from '../operations.ts';
import { sampleEvent } from '../sample-event.ts';
import { shapePayload, shapeResponse } from '../shape.ts';
import { ACCEPTED, REFUSED } from '../testing/bodies.ts';
import { delivers, payloadOf } from '../topics/topics.ts';
import { RELEASED, UNSTABLE } from '../versions.ts';
import { TOPICS, TRIGGERS } from '../vocabulary.ts';
import { openapiDocument } from './document.ts';

/** Rules that a schema cannot express, or has only in its description. */
const UNSAID =
  /NUL|16 KiB|twice|when (category|kind)|after from|RFC 3339|Base64|true, false or null/;

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
