import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { FAKE } from '../../test/kit/gateway/fake-objects.ts';
import { type Received, restClient, type Sent } from '../../test/kit/gateway/rest-client.ts';
import { startTestGateway, type TestGateway } from '../../test/kit/gateway/test-gateway.ts';

let under: TestGateway;
let send: (sent: Sent) => Promise<Received>;
beforeAll(async () => {
  under = await startTestGateway();
  send = restClient(under);
});
afterAll(() => under.stop());

const CARD = { order_id: 7, order_name: 'Card 7', amount: '8.00', currency: 'GBP' };

const record = (json: object, id: bigint = FAKE.returns.open) =>
  send({ path: `/api/v1/returns/${id}/gift-card`, json });

test('a recorded gift card is shown with the id of its request', async () => {
  expect(await record(CARD)).toMatchObject({
    status: 201,
    body: { ...CARD, id: 61, return_id: 11, issued_at: '2026-11-20T10:00:00+00:00' },
  });
});

test('a gift card without a name has none', async () => {
  const { order_name: _, ...unnamed } = CARD;
  expect(await record(unnamed)).toMatchObject({ status: 201, body: { order_name: null } });
});

test('a gift card that was not requested is a conflict', async () => {
  expect(await record(CARD, FAKE.returns.closed)).toMatchObject({
    status: 409,
    body: { errors: { message: 'No gift card was requested for the return.' } },
  });
});
