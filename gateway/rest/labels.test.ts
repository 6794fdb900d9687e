import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { FAKE } from '../../test/kit/gateway/fake-objects.ts';
import { type Received, restClient, type Sent } from '../../test/kit/gateway/rest-client.ts';
import { startTestGateway, type TestGateway } from '../../test/kit/gateway/test-gateway.ts';

let under: TestGateway;
let send: (sent: Sent) => Promise<Received>;
beforeAll(async () => {
  under = await startTestGateway();
  send = restClient(under);
});
afterEach(() => under.resetServices());
afterAll(() => under.stop());

const LABEL = { carrier: 'Evri', created_at: '2026-11-20T10:00:00Z' };

function record(
  json: object = LABEL,
  headers: Record<string, string> = {},
  id: bigint = FAKE.returns.open,
) {
  return send({ path: `/api/v1/returns/${id}/labels`, json, headers });
}

/** The key that the service got. The fake service returns it as the link of the label. */
async function keyOf(...request: Parameters<typeof record>): Promise<string> {
  const { status, body } = await record(...request);
  expect(status).toBe(201);
  return (body as { url: string }).url;
}

test('a new label is shown as in return details, with its ids', async () => {
  expect((await record()).body).toEqual({
    id: 51,
    return_id: 11,
    status: 'new',
    updated_at: '2026-11-20T10:00:00+00:00',
    url: expect.any(String),
    rate: null,
    carrier: 'Evri',
    tracking_number: 'EV1',
    line_items: [21],
  });
});

describe('the key of a label', () => {
  test('is that of the header, whatever the content is', async () => {
    const key = await keyOf(LABEL, { 'idempotency-key': 'label-1' });
    expect(await keyOf({ carrier: 'DHL' }, { 'idempotency-key': 'label-1' })).toBe(key);
    expect(await keyOf(LABEL, { 'idempotency-key': 'label-2' })).not.toBe(key);
    expect(key.length).toBeLessThanOrEqual(200);
    expect(key).not.toContain('label-1');
  });

  test('without the header is the content, so that a repeat is one label', async () => {
    const key = await keyOf();
    expect(await keyOf({ created_at: '2026-11-20T11:00:00+01:00', carrier: 'Evri' })).toBe(key);
    expect(await keyOf({ ...LABEL, tracking_number: 'EV2' })).not.toBe(key);
    expect(await keyOf(LABEL, { 'idempotency-key': key })).not.toBe(key);
  });

  test.each([
    ['empty', ''],
    ['of 201 characters', 'k'.repeat(201)],
    ['not ASCII', '\u00e9'],
  ])('is rejected when it is %s', async (_, key) => {
    expect(await record(LABEL, { 'idempotency-key': key })).toMatchObject({
      status: 422,
      body: { message: 'Idempotency-Key must have 1 to 200 ASCII characters.', errors: {} },
    });
  });

  test('may have double quotes, as in the draft of the header', async () => {
    const plain = await keyOf(LABEL, { 'idempotency-key': 'say "hi" \\\\ there' });
    const quoted = await keyOf(LABEL, { 'idempotency-key': '"say \\"hi\\" \\\\\\\\ there"' });
    expect(quoted).toBe(plain);
  });

  test.each(['"open', '"a" b', '"a\\b"', '""'])(
    'is rejected when its quotes are %s',
    async (key) => {
      expect(await record(LABEL, { 'idempotency-key': key })).toMatchObject({ status: 422 });
    },
  );

  test('with other content than before is invalid', async () => {
    expect(await record({ carrier: FAKE.otherContent })).toMatchObject({
      status: 422,
      body: {
        message:
          'Idempotency-Key was used with other content: send a new key, or the same content as before.',
        errors: {},
      },
    });
  });
});

test('a label of a closed return is a conflict', async () => {
  expect(await record(LABEL, {}, FAKE.returns.closed)).toMatchObject({
    status: 409,
    body: { errors: { message: 'The return is closed.' } },
  });
});

test('an ignored update is answered with the label as it is', async () => {
  under.services.returns.updateLabel = () => ({
    label: { id: FAKE.label, returnId: FAKE.returns.open, carrier: 'Evri' },
    ignored: true,
  });
  const json = { status: 'new', occurred_at: '2026-11-01T10:00:00Z' };
  const path = `/api/v1/labels/${FAKE.label}`;
  expect(await send({ method: 'PUT', path, json })).toMatchObject({
    status: 200,
    body: { id: 51, return_id: 11, carrier: 'Evri', status: null },
  });
});
