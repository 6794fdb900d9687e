import { create } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import {
  type Subscription,
  SubscriptionHealthSchema,
  SubscriptionStatus,
} from '../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { sampleEvent } from '../../services/contract/sample-event.ts';
import { runAdmin } from '../../test/kit/gateway/run-admin.ts';
import { startTestGateway, type TestGateway } from '../../test/kit/gateway/test-gateway.ts';
import { actor } from '../../test/kit/services/running-service.ts';
import { until } from '../../test/kit/until.ts';
import { type Receiver, startReceiver } from '../../test/kit/webhooks/receiver.ts';
import { runWebhooks, type WebhooksUnderTest } from '../../test/kit/webhooks/running-webhooks.ts';
import { listAudit } from '../tenancy/audit-list.ts';
import type { AdminContext } from './admin-context.ts';

let under: TestGateway;
let webhooks: WebhooksUnderTest;
let receiver: Receiver;
beforeAll(async () => {
  under = await startTestGateway();
  webhooks = await runWebhooks();
  receiver = await startReceiver();
});
afterAll(async () => {
  await receiver.stop();
  await webhooks.stop();
  await under.stop();
});

type List = WebhooksUnderTest['client']['listSubscriptions'];

/** @param list lists the webhooks. */
const commandsOf = (shopId: bigint, list: List = webhooks.client.listSubscriptions) => {
  const client = { ...webhooks.client, listSubscriptions: list };
  const services = { webhooks: client } as unknown as AdminContext['services'];
  const context = { pool: under.database.pool, services };
  return (...words: string[]) =>
    runAdmin(context, ['webhooks', ...words, '--shop', String(shopId)]);
};

test('a shop without webhooks', async () => {
  const admin = commandsOf(await under.newShop());
  expect(await admin('list')).toEqual([expect.stringMatching(/^shop \d+ has no webhooks$/)]);
  expect(await admin('failing')).toEqual([expect.stringMatching(/^no webhook of shop \d+ fails$/)]);
  expect(await admin('waiting')).toEqual([
    expect.stringMatching(/^no delivery of shop \d+ waits$/),
  ]);
});

test('a receiver that fails is found, and gets what waits when it works again', async () => {
  const shopId = await under.newShop();
  const admin = commandsOf(shopId);
  receiver.answer = (response) => void response.writeHead(500).end();
  const { id } = await webhooks.subscribe({ shopId, url: receiver.url });
  await webhooks.publish(sampleEvent('return.closed', shopId));
  const failing = await until(async () => {
    const lines = await admin('failing');
    return lines.length > 1 ? lines : undefined;
  });
  expect(failing).toEqual([
    expect.stringContaining(`${id}  active  return.closed → return  ${receiver.url}  1 wait`),
    expect.stringMatching(/^ {2}1 failure since 20\S+; last at 20\S+: answered 500/),
    expect.stringMatching(/^ {2}becomes inactive at 20/),
  ]);
  expect(await admin('list')).toEqual([failing[0]]);
  const changed = (one: Partial<Subscription>) =>
    commandsOf(shopId, async (call) => {
      const { subscriptions, ...rest } = await webhooks.client.listSubscriptions(call);
      return { ...rest, subscriptions: subscriptions.map((of) => ({ ...of, ...one })) };
    });
  const since = timestampFromDate(new Date('2100-01-01'));
  const health = create(SubscriptionHealthSchema, { pausedSince: since });
  expect((await changed({ health })('list'))[0]).toContain(
    'active (paused since 2100-01-01T00:00:00.000Z: one delivery is tried at a time)',
  );
  const inactive = { status: SubscriptionStatus.INACTIVE, failures: 0 };
  expect((await changed(inactive)('failing'))[0]).toContain(
    `${id}  inactive (set by a person, key or app)`,
  );
  const limited = commandsOf(shopId, async (call) => {
    const { subscriptions, ...rest } = await webhooks.client.listSubscriptions(call);
    const [one] = subscriptions;
    if (one?.backlog) one.backlog.delayedUntil = timestampFromDate(new Date('2100-01-01'));
    return { subscriptions, ...rest };
  });
  expect(await limited('list')).toEqual([
    `${failing[0]}, delayed by a limit until 2100-01-01T00:00:00.000Z`,
  ]);
  const [waiting = ''] = await admin('waiting', '--webhook', String(id));
  expect(waiting).toMatch(
    / {2}waiting {2}return\.closed {2}event \S+ {2}next attempt 20\S+ {2}last: 500/,
  );

  receiver.answer = (response) => void response.writeHead(204).end();
  expect(await admin('retry', '--webhook', String(id))).toEqual(['1 delivery is due now']);
  await until(async () => (await admin('waiting'))[0]?.startsWith('no delivery') === true);
  const [entry] = await listAudit(under.database.pool, { shopId, limit: 1 });
  expect(entry).toMatchObject({ action: 'webhook.retried', subject: String(id) });

  // A webhook that is deleted during the list is left out.
  const deleting = commandsOf(shopId, async (call) => {
    const listed = await webhooks.client.listSubscriptions(call);
    await webhooks.client.deleteSubscription({ shopId, actor, subscriptionId: id });
    return {
      ...listed,
      subscriptions: listed.subscriptions.map((one) => ({ ...one, failures: 1 })),
    };
  });
  expect(await deleting('failing')).toEqual([]);
});
