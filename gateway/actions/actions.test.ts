import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { AssessRequest } from '../../proto/gen/rms/dispositions/v1/dispositions_pb.ts';
import { DispositionOutcome } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import { domainLimitReached } from '../../services/webhooks/subscriptions/subscription-limits.ts';
import { FAKE, NOW } from '../../test/kit/gateway/fake-objects.ts';
import { type McpBench, startMcpBench } from '../../test/kit/gateway/mcp.ts';
import { restClient } from '../../test/kit/gateway/rest-client.ts';

let bench: McpBench;
beforeAll(async () => {
  bench = await startMcpBench();
});
afterAll(() => bench.stop());

describe('actions on dispositions', () => {
  let received: AssessRequest | undefined;
  /** The note of a later assessment, which a repeat with a key shows; undefined when there is none. */
  let laterNote: string | undefined;
  beforeAll(async () => {
    const disposition = { outcome: DispositionOutcome.DONATE, inspectedAt: NOW };
    Object.assign(bench.services.dispositions, {
      assess: (request: AssessRequest) => {
        received = request;
        const hasNotes = laterNote !== undefined;
        const items = request.items.map(({ lineItemId }) => ({
          lineItemId,
          disposition: { ...disposition, ...(hasNotes && { note: laterNote }) },
        }));
        // Not in the order of the request, on which the gateway must not depend.
        return { items: items.reverse(), hasNotes };
      },
    });
  });

  const line = Number(FAKE.lineItem);

  test('the response has the notes of the request, which the service does not return', async () => {
    const baseUrl = `http://127.0.0.1:${bench.gateway.port}`;
    const json = {
      items: [
        { line_item_id: line, note: 'a note' },
        { line_item_id: line + 1, note: '' },
        { line_item_id: line + 2, note: null },
      ],
    };
    const path = '/api/2026-10/dispositioning/assess';
    const { status, body } = await restClient(bench)({ path, json, baseUrl });
    expect({ status, body }).toMatchObject({
      status: 200,
      body: [
        { line_item_id: line + 2, note: null },
        { line_item_id: line + 1, note: '' },
        { line_item_id: line, note: 'a note' },
      ],
    });
    expect(received?.withoutNotes).toBe(true);
  });

  test('the response to a repeat with a key has the notes of the service', async () => {
    const baseUrl = `http://127.0.0.1:${bench.gateway.port}`;
    const path = '/api/2026-10/dispositioning/assess';
    const json = { items: [{ line_item_id: line, note: 'a note' }] };
    const repeat = () =>
      restClient(bench)({ path, json, baseUrl, headers: { 'idempotency-key': 'k' } });
    expect(await repeat()).toMatchObject({ status: 200, body: [{ note: 'a note' }] });
    laterNote = 'of a later assessment';
    expect(await repeat()).toMatchObject({ status: 200, body: [{ note: laterNote }] });
    laterNote = undefined;
  });

  test('an assistant gets only the beginning of a long note', async () => {
    const { token } = await bench.member('owner');
    const notes = ['n'.repeat(1_000), 'n'.repeat(1_001), `${'n'.repeat(999)}\u{1f4e6}`];
    const items = notes.map((note, at) => ({ line_item_id: line + at, note }));
    const result = await bench.call(token, 'record_dispositions', { items });
    const shown = result.data.items.map(({ note }: { note: string }) => note).reverse();
    expect(shown).toEqual([notes[0], `${notes[0]}…`, `${'n'.repeat(999)}\ufffd…`]);
    expect(received?.items.map(({ note }) => note)).toEqual(notes);
  });
});

describe('actions on webhooks', () => {
  beforeAll(async () => {
    const reject = (): never => {
      throw domainLimitReached('example.com');
    };
    Object.assign(bench.services.webhooks, {
      createSubscription: reject,
      updateSubscription: reject,
    });
  });

  const json = { topic: 'return', trigger: 'return.closed', url: 'https://hooks.example.com/' };
  const limit = expect.stringContaining(
    'at most 5 active webhook subscriptions to one domain for one pair of topic and trigger',
  );

  test.each([
    ['POST', '/api/v1/webhooks'],
    ['PUT', '/api/v1/webhooks/41'],
  ] as const)(
    '%s %s: one subscription too many for a domain is 422 with the limit',
    async (method, path) => {
      const baseUrl = `http://127.0.0.1:${bench.gateway.port}`;
      expect(await restClient(bench)({ method, path, json, baseUrl })).toMatchObject({
        status: 422,
        body: { errors: { code: 'FAILED_TO_CREATE_WEBHOOK', message: limit } },
      });
    },
  );

  test('update_webhook rejects one subscription too many for a domain, and the error has the limit', async () => {
    const { token } = await bench.member('owner');
    const args = { webhook_id: 41, status: 'active' };
    const result = await bench.call(token, 'update_webhook', args);
    expect(result).toMatchObject({ isError: true, text: limit });
    expect(result.text).toContain('Nothing was changed.');
  });
});
