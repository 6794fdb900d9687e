import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { rawBodies, valuesFor } from '../kit/arbitrary-request.ts';
import { queriesFor } from '../kit/fuzz-query.ts';
import { type DocumentedOperation, documentedOperations } from '../kit/openapi.ts';
import { startTestStack, type TestStack } from '../kit/stack.ts';

/** Number of requests for each operation and version. FUZZ_RUNS=1000 makes a long run. */
const RUNS = Number(process.env.FUZZ_RUNS ?? 40);

/** The OpenAPI document of each version segment. '' names no version, so the oldest supported one serves. */
const SEGMENTS: Readonly<Record<string, string>> = {
  v1: '2026-07',
  '2026-07': '2026-07',
  '2026-10': '2026-10',
  unstable: 'unstable',
  '': '2026-07',
};

interface Probe {
  readonly id: string;
  readonly deliveryId: string;
  readonly query: string;
  readonly body: string | undefined;
  readonly contentType: string;
  readonly idempotencyKey: string | undefined;
}

let stack: TestStack;
beforeAll(async () => {
  stack = await startTestStack();
});
afterAll(() => stack?.stop());

describe.each(Object.entries(SEGMENTS))('/api/%s', (segment, version) => {
  test(
    'responds to any request with a documented status and a body that matches its schema',
    async () => {
      const document = await documentOf(version);
      for (const operation of documentedOperations(document)) {
        await fc.assert(
          fc.asyncProperty(probes(operation, document), async (probe) => {
            expect(await faultOf(operation, segment, probe)).toBeUndefined();
          }),
          { numRuns: RUNS },
        );
      }
    },
    60_000 + RUNS * 8 * 200,
  );
});

type Json = Readonly<Record<string, unknown>>;

async function documentOf(version: string): Promise<Json> {
  const response = await fetch(`${stack.file.base_url}/openapi/${version}.json`);
  return (await response.json()) as Json;
}

function probes(operation: DocumentedOperation, document: Json): fc.Arbitrary<Probe> {
  const { returns, line_items, webhooks, destinations, carts } = stack.shop.fixtures;
  const known = [returns.open?.[0]?.id ?? 1, webhooks[0]?.id ?? 1, destinations.linked];
  const foreign = stack.otherShop.fixtures.returns.open?.[0]?.id ?? 1;
  const ids = [...line_items.slice(0, 8), ...known, foreign];
  const body = operation.body
    ? fc.oneof(
        {
          weight: 4,
          arbitrary: valuesFor(operation.body as Json, document, ids).map((value) =>
            JSON.stringify(value),
          ),
        },
        { weight: 1, arbitrary: rawBodies },
      )
    : fc.constant(undefined);
  const deliveryId = 'msg_0199e1a4-7b20-8abc-8def-0123456789ab';
  return fc.record({
    deliveryId: fc.constantFrom(
      deliveryId,
      deliveryId.toUpperCase(),
      deliveryId.slice(4),
      'msg_',
      '%00',
      '%zz',
      'abc',
    ),
    id: fc.constantFrom(
      ...known.map(String),
      ...carts.slice(0, 1),
      String(foreign),
      '0',
      '01',
      'abc',
      '-1',
      '1e3',
      '9007199254740993',
      '%31',
      '%00',
      '%zz',
    ),
    query: queriesFor(operation, document, ids),
    body,
    contentType: fc.constantFrom(
      'application/json',
      'application/json',
      'application/json',
      'application/json; charset=utf-8',
      'text/plain',
    ),
    idempotencyKey: operation.keyed ? fc.constantFrom(...KEYS) : fc.constant(undefined),
  });
}

/** Values of `Idempotency-Key`: absent, valid, quoted, and such as no key is. */
const KEYS = [undefined, undefined, 'k1', '"k1"', '"', ' ', 'é', 'k'.repeat(256)] as const;

async function faultOf(
  operation: DocumentedOperation,
  segment: string,
  probe: Probe,
): Promise<string | undefined> {
  const path = operation.path.replace(/\{(\w+)\}/g, (_, name) =>
    name === 'delivery_id' ? probe.deliveryId : probe.id,
  );
  const url = `${stack.file.base_url}/api${segment && `/${segment}`}${path}?${probe.query}`;
  const response = await fetch(url, {
    method: operation.method,
    headers: {
      'X-Authorization': stack.shop.api_keys.all ?? '',
      ...(probe.body !== undefined && { 'Content-Type': probe.contentType }),
      ...(probe.idempotencyKey !== undefined && { 'Idempotency-Key': probe.idempotencyKey }),
    },
    ...(probe.body !== undefined && { body: probe.body }),
  });
  const text = await response.text();
  if (response.status >= 500) return `${operation.method} ${url}: ${response.status} ${text}`;
  const contentType = response.headers.get('content-type') ?? '';
  const fault = operation.faultOf({
    status: response.status,
    contentType,
    body: text === '' ? undefined : JSON.parse(text),
  });
  return fault && `${operation.method} ${url} ${probe.body}: ${response.status} ${text}: ${fault}`;
}
