import { Code } from '@connectrpc/connect';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { AuditService } from '../../proto/gen/rms/portal/v1/audit_pb.ts';
import { ReturnsService } from '../../proto/gen/rms/portal/v1/returns_pb.ts';
import { WebhooksService } from '../../proto/gen/rms/portal/v1/webhooks_pb.ts';
import { DeliveryState } from '../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { FAKE, NOW, sampleSubscription } from '../../test/kit/gateway/fake-objects.ts';
import { startTestGateway, type TestGateway } from '../../test/kit/gateway/test-gateway.ts';
import { errorOf, type PortalPerson, portalPerson } from '../../test/kit/portal/portal.ts';

let under: TestGateway;
let developer: PortalPerson;
let owner: PortalPerson;
beforeAll(async () => {
  under = await startTestGateway();
  developer = await portalPerson(under, { shopId: 1n, role: 'developer' });
  owner = await portalPerson(under, { shopId: 1n, role: 'owner' });
});
afterEach(() => under.resetServices());
afterAll(() => under.stop());

const webhooks = () => developer.client(WebhooksService);
const key = (): string => crypto.randomUUID();
const webhookId = String(FAKE.webhook);

describe('deliveries and webhooks in the portal', () => {
  test('count the deliveries of a filter, also of a replay', async () => {
    under.services.webhooks.listDeliveries = ({ includeCount, replayId, states }) => {
      expect({ includeCount, replayId, states }).toEqual({
        includeCount: true,
        replayId: 7n,
        states: [DeliveryState.EXHAUSTED],
      });
      const counted = { count: 3, more: true, oldestAt: NOW };
      return { count: { ...counted, states: [{ state: DeliveryState.EXHAUSTED, count: 3 }] } };
    };
    const { count } = await webhooks().listDeliveries({ replayId: '7', states: ['exhausted'] });
    expect(count).toMatchObject({
      count: 3,
      more: true,
      oldestAt: NOW,
      states: [{ state: 'exhausted', count: 3 }],
    });
  });

  test('of a replay from before they were stored are said to be not listed', async () => {
    under.services.webhooks.getReplay = ({ replayId: id }) => ({ replay: { id, unlisted: true } });
    const { replay } = await webhooks().getReplay({ replayId: '7' });
    expect(replay).toMatchObject({ id: '7', unlisted: true });
  });

  test('name the newest failure, and equal webhooks when they are created', async () => {
    const lastFailure = {
      deliveryId: FAKE.delivery,
      startedAt: NOW,
      status: 500,
      error: 'answered 500',
      url: 'https://example.com/hook',
      responseExcerpt: 'no such key',
    };
    under.services.webhooks.getSubscription = () => ({
      subscription: { ...sampleSubscription(), failures: 1, lastFailure },
    });
    const { webhook } = await webhooks().getWebhook({ webhookId });
    expect(webhook?.health?.lastFailure).toMatchObject(lastFailure);
    under.services.webhooks.createSubscription = () => ({
      subscription: sampleSubscription(),
      secret: 'whsec_x',
      equalSubscriptionIds: [12n],
    });
    const body = { topic: 'return', trigger: 'return.closed', url: lastFailure.url };
    const { equalWebhookIds } = await webhooks().createWebhook({ ...body, idempotencyKey: key() });
    expect(equalWebhookIds).toEqual(['12']);
  });
});

describe('a filter by an id that no object can have selects nothing', () => {
  const calls: readonly [string, (id: string) => Promise<unknown>][] = [
    ['webhook_id', (id) => webhooks().listDeliveries({ webhookId: id })],
    ['return_id', (id) => webhooks().listDeliveries({ returnId: id })],
    ['replay_id', (id) => webhooks().listDeliveries({ replayId: id })],
    ['webhook_id', (id) => webhooks().getDeliveryStats({ webhookId: id })],
    ['webhook_id', (id) => webhooks().listReplays({ webhookId: id })],
    ['filter.webhook_id', (id) => webhooks().previewReplay({ filter: { webhookId: id } })],
    ['filter.return_id', (id) => webhooks().previewReplay({ filter: { returnId: id } })],
    ['filter.return_id', (id) => start({ returnId: id })],
    ['destination_id', (id) => developer.client(ReturnsService).listReturns({ destinationId: id })],
    ['filter.return_id', (id) => audit().listAuditEntries({ filter: { returnId: id } })],
    ['filter.return_id', (id) => audit().exportAuditEntries({ filter: { returnId: id } })],
  ];
  const start = (filter: { returnId: string }) =>
    webhooks().startReplay({ filter, idempotencyKey: key() });
  const audit = () => owner.client(AuditService);

  test.each(calls)('%s, call %#', async (field, call) => {
    for (const id of ['0', '-1', '9007199254740992']) {
      const { code, rawMessage } = await errorOf(call(id));
      expect({ code, rawMessage }).toEqual({
        code: Code.InvalidArgument,
        rawMessage: `${field} must be the number of an object.`,
      });
    }
  });
});
