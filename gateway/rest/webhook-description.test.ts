import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import { FAKE, sampleSubscription } from '../../test/kit/gateway/fake-objects.ts';
import { type Received, restClient, type Sent } from '../../test/kit/gateway/rest-client.ts';
import { startTestGateway, type TestGateway } from '../../test/kit/gateway/test-gateway.ts';

// Only the portal has descriptions of webhooks.

let under: TestGateway;
let send: (sent: Sent) => Promise<Received>;
beforeAll(async () => {
  under = await startTestGateway();
  send = restClient(under);
});
afterEach(() => under.resetServices());
afterAll(() => under.stop());

const WEBHOOKS = '/api/2026-10/webhooks';
const { topic, trigger, url } = sampleSubscription();
const json = { topic, trigger, url, description: 'Accounting' };
const described = () => ({ ...sampleSubscription(), description: 'Warehouse' });

test('no response about a webhook has its description', async () => {
  under.services.webhooks.listSubscriptions = () => ({ subscriptions: [described()] });
  under.services.webhooks.getSubscription = () => ({ subscription: described() });
  under.services.webhooks.createSubscription = () => ({
    subscription: described(),
    secret: FAKE.secret,
    payloadVersion: '2026-10',
  });
  const responses = [
    await send({ path: WEBHOOKS }),
    await send({ path: `${WEBHOOKS}/${FAKE.webhook}` }),
    await send({ path: WEBHOOKS, json }),
  ];
  expect(responses.map(({ status }) => status)).toEqual([200, 200, 201]);
  expect(responses.map(({ text }) => text).join()).not.toMatch(/description|Warehouse|Accounting/);
});

test('a body cannot set it, and an update that replaces the webhook keeps it', async () => {
  const asked: unknown[] = [];
  under.services.webhooks.createSubscription = ({ description }) => {
    asked.push(description);
    return { subscription: described(), secret: FAKE.secret, payloadVersion: '2026-10' };
  };
  under.services.webhooks.updateSubscription = ({ description }) => {
    asked.push(description);
    return { subscription: described(), payloadVersion: '2026-10' };
  };
  const created = await send({ path: WEBHOOKS, json });
  const path = `${WEBHOOKS}/${FAKE.webhook}`;
  const updated = await send({ method: 'PUT', path, json });
  expect([created.status, updated.status]).toEqual([201, 204]);
  expect(asked).toEqual(['', undefined]);
  expect(updated.headers['x-service-hint']).toContain('description is no field');
});
