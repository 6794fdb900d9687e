import { createSecretKey } from 'node:crypto';
import { expect, test } from '@jest/globals';
import { payloadSection } from '../../contract/openapi/payload-section.ts';
import { attemptHeaders } from './headers.ts';

const SOURCE = {
  webhookId: 'msg_1',
  trigger: 'return.closed',
  eventId: 'event',
  apiVersion: '2026-07',
  sunset: undefined,
  revision: 3n,
  traceparent: '',
  sandbox: false,
  test: false,
  keys: [createSecretKey(Buffer.alloc(32))],
  body: Buffer.from('{}'),
};

interface Parameter {
  readonly name: string;
  readonly required: boolean;
}

/** The names of the headers in the OpenAPI documents, in lower case. */
function documented(isIncluded: (parameter: Parameter) => boolean): string[] {
  const operation: unknown = payloadSection('2026-07').return?.post;
  const parameters: Parameter[] = Reflect.get(Object(operation), 'parameters');
  return parameters.filter(isIncluded).map(({ name }) => name.toLowerCase());
}

/** The names of the headers of an attempt, without those that describe its body. */
function sent(source: typeof SOURCE | object): string[] {
  const headers = attemptHeaders({ ...SOURCE, ...source }, new Date());
  return Object.keys(headers)
    .map((name) => name.toLowerCase())
    .filter((name) => name !== 'content-type');
}

test('the OpenAPI documents have every header that an attempt can have, and no other', () => {
  const all = sent({
    sunset: 'Fri, 01 Oct 2027 00:00:00 GMT',
    traceparent: `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`,
    sandbox: true,
    test: true,
  });
  expect(all.toSorted()).toEqual(documented(() => true).toSorted());
});

test('an attempt always has the headers that the OpenAPI documents require', () => {
  expect(sent({})).toEqual(expect.arrayContaining(documented(({ required }) => required)));
});
