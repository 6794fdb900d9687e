import { Code, ConnectError } from '@connectrpc/connect';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { PayloadVersionService } from '../../proto/gen/rms/portal/v1/payload_version_pb.ts';
import { WebhooksService } from '../../proto/gen/rms/portal/v1/webhooks_pb.ts';
import { ReturnState } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import { SearchReturnsRequest_Sort as Sort } from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import {
  ReplayKind,
  ReplayState,
  SubscriptionStatus,
} from '../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { sampleReturn } from '../../services/contract/sample-return.ts';
import { TRIGGERS } from '../../services/contract/vocabulary.ts';
import {
  FAKE,
  NOW,
  sampleDelivery,
  sampleSubscription,
} from '../../test/kit/gateway/fake-objects.ts';
import { startTestGateway, type TestGateway } from '../../test/kit/gateway/test-gateway.ts';
import { type PortalPerson, portalPerson } from '../../test/kit/portal/portal.ts';

let under: TestGateway;
let developer: PortalPerson;
beforeAll(async () => {
  under = await startTestGateway();
  developer = await portalPerson(under, { shopId: 1n, role: 'developer' });
});
afterEach(() => under.resetServices());
afterAll(() => under.stop());

const webhooks = () => developer.client(WebhooksService);
const versions = () => developer.client(PayloadVersionService);
const key = (): string => crypto.randomUUID();
const webhookId = String(FAKE.webhook);

async function errorOf(call: Promise<unknown>): Promise<ConnectError> {
  return call.then(
    () => new ConnectError('no error', Code.Unknown),
    (error: unknown) => ConnectError.from(error),
  );
}

describe('webhooks in the portal', () => {
  test('are listed with their health', async () => {
    under.services.webhooks.listSubscriptions = (request) => {
      expect(request).toMatchObject({ shopId: 1n, includeBacklog: true, includeHealth: true });
      const health = { counted: 10, delivered: 7, payloadVersion: '2026-07' };
      return { subscriptions: [{ ...sampleSubscription(), failures: 3, health }] };
    };
    const listed = await webhooks().listWebhooks({});
    expect(listed.payloadVersion).toBe('2026-07');
    expect(listed.webhooks).toMatchObject([
      {
        id: webhookId,
        status: 'active',
        health: { state: 'failing', failures: 3, succeeded24h: 7, failed24h: 3 },
      },
    ]);
  });

  test.each([
    ['healthy', { counted: 2, delivered: 1 }, {}],
    ['idle', {}, {}],
    ['untried', { countedSince: NOW }, {}],
    ['healthy', { counted: 1, delivered: 1, countedSince: NOW }, {}],
    ['failing', { countedSince: NOW }, { failures: 1 }],
    ['failing', { pausedSince: NOW }, { failures: 20 }],
    ['paused', { pausedSince: NOW }, {}],
    ['inactive', { pausedSince: NOW }, { status: SubscriptionStatus.INACTIVE }],
    [
      'deactivated',
      { countedSince: NOW },
      { status: SubscriptionStatus.INACTIVE, inactiveReason: 'It failed.' },
    ],
  ])('are %s with the health %o', async (state, health, change) => {
    under.services.webhooks.getSubscription = () => ({
      subscription: { ...sampleSubscription(), ...change, health },
    });
    const { webhook } = await webhooks().getWebhook({ webhookId });
    expect(webhook?.health?.state).toBe(state);
  });

  test('are created with a secret; a wrong address names the field', async () => {
    const body = { topic: 'return', trigger: 'return.closed', idempotencyKey: key() };
    const created = await webhooks().createWebhook({ ...body, url: 'https://example.com/hook' });
    expect(created.secret).toMatch(/^whsec_/);
    const error = await errorOf(webhooks().createWebhook({ ...body, url: 'http://10.0.0.1' }));
    expect(error).toMatchObject({
      code: Code.InvalidArgument,
      rawMessage: 'The url must be an absolute https address.',
    });
    const unknown = { ...body, topic: 'moon', url: 'https://example.com' };
    expect(await errorOf(webhooks().createWebhook(unknown))).toMatchObject({
      code: Code.InvalidArgument,
    });
  });

  test('that do not exist are NOT_FOUND', async () => {
    expect(await errorOf(webhooks().deleteWebhook({ webhookId: '999' }))).toMatchObject({
      code: Code.NotFound,
    });
    expect(await errorOf(webhooks().getDelivery({ deliveryId: 'msg_x' }))).toMatchObject({
      code: Code.NotFound,
    });
  });

  test('say which topic delivers which trigger', async () => {
    const { topics, triggers } = await webhooks().listEventTypes({});
    expect(topics.find(({ topic }) => topic === 'label')?.delivers).toEqual([
      'label.created',
      'label.updated',
    ]);
    expect(triggers.map(({ name }) => name)).toEqual(TRIGGERS);
  });

  test('show a delivery with its attempts, and find it by its webhook-id', async () => {
    const found = await webhooks().listDeliveries({ search: FAKE.delivery });
    expect(found.deliveries.map(({ id }) => id)).toEqual([FAKE.delivery]);
    const one = await webhooks().getDelivery({ deliveryId: FAKE.delivery });
    expect(one.attempts.length).toBe(one.delivery?.attemptCount);
    expect(one.attempts[0]?.responseHeaders).toMatchObject([
      { name: 'retry-after', value: '7' },
      { name: 'set-cookie', value: '(not stored)' },
    ]);
    const page = await webhooks().listDeliveries({ webhookId, pageSize: 1 });
    expect(page.nextCursor).toBe('next');
  });

  test('find the deliveries of an event', async () => {
    const { listDeliveries } = under.services.webhooks;
    const events: string[] = [];
    under.services.webhooks.listDeliveries = (request, context) => {
      events.push(request.eventId);
      return listDeliveries?.(request, context) ?? {};
    };
    const eventId = crypto.randomUUID();
    expect((await webhooks().listDeliveries({ search: ` ${eventId} ` })).deliveries).toHaveLength(
      1,
    );
    expect(events).toEqual([eventId]);
  });

  test('replay what was counted, with one key for each click', async () => {
    under.services.webhooks.previewReplay = ({ filter }) => {
      expect(filter?.to).toBeDefined();
      return { matched: 5, replayable: 4, notReplayable: [{ reason: 4, count: 1 }] };
    };
    const preview = await webhooks().previewReplay({
      filter: { webhookId, states: ['exhausted'] },
    });
    expect(preview).toMatchObject({
      matched: 5,
      replayable: 4,
      notReplayable: [{ reason: 'payload_gone', count: 1 }],
    });
    under.services.webhooks.startReplay = ({ filter, idempotencyKey }) => {
      expect(idempotencyKey).toMatch(/^portal-[0-9a-f]{64}$/);
      const replay = { id: 7n, kind: ReplayKind.REPLAY, state: ReplayState.RUNNING, total: 4 };
      return { replay: { ...replay, ...(filter && { filter }) } };
    };
    const { filter } = preview;
    const started = await webhooks().startReplay({
      ...(filter && { filter }),
      idempotencyKey: key(),
    });
    expect(started.replay).toMatchObject({
      id: '7',
      kind: 'replay',
      state: 'running',
      filter: { states: ['exhausted'] },
    });
    expect(await errorOf(webhooks().startReplay({ idempotencyKey: key() }))).toMatchObject({
      code: Code.InvalidArgument,
    });
  });
});

describe('payload version in the portal', () => {
  test('is set only if nobody else changed it', async () => {
    const current = await versions().getPayloadVersion({});
    expect(current.versions.map(({ version }) => version)).toEqual(['2026-10', '2026-07']);
    let expected = '';
    under.services.webhooks.setPayloadVersion = ({ version, expectedVersion }) => {
      expected = expectedVersion;
      return { version };
    };
    await versions().setPayloadVersion({ version: '2026-10', expectedVersion: current.version });
    expect(expected).toBe('2026-07');
    const unstable = { version: 'unstable', expectedVersion: '2026-07' };
    expect(await errorOf(versions().setPayloadVersion(unstable))).toMatchObject({
      code: Code.InvalidArgument,
    });
  });

  test('offers the returns that changed last', async () => {
    under.services.returns.searchReturns = (request) => {
      expect(request).toMatchObject({ shopId: 1n, sort: Sort.UPDATED_DESC });
      return { returns: [] };
    };
    expect((await versions().listRecentEvents({})).events).toEqual([]);
  });

  test('says what each version changes, and for which topics', async () => {
    const { versions: listed } = await versions().getPayloadVersion({});
    expect(listed.map((one) => [one.version, one.about, one.inWords, one.changedTopics])).toEqual([
      [
        '2026-10',
        expect.stringContaining('`condition.condition_category`'),
        expect.stringContaining('grade of an item'),
        ['return'],
      ],
      ['2026-07', '', '', []],
    ]);
  });

  test('marks the recent events that differ between two versions', async () => {
    const graded = sampleReturn(1n, ReturnState.CLOSED);
    const plain = sampleReturn(1n, ReturnState.OPEN);
    plain.id += 1n;
    for (const line of plain.lineItems) delete line.condition;
    under.services.returns.searchReturns = () => ({ returns: [plain, graded] });
    const marks = async (...names: string[]) => {
      const { events } = await versions().listRecentEvents({ versions: names });
      return events.map(({ id, differs }) => [id, differs]);
    };
    const [first, second] = [`return:${plain.id}`, `return:${graded.id}`];
    expect(await marks('2026-07', '2026-10')).toEqual([
      [first, false],
      [second, true],
    ]);
    expect(await marks()).toEqual([
      [first, false],
      [second, false],
    ]);
  });

  test.each([[['2026-10']], [['2026-07', '2026-08']]])(
    'compares no events in %j',
    async (names) => {
      expect(await errorOf(versions().listRecentEvents({ versions: names }))).toMatchObject({
        code: Code.InvalidArgument,
      });
    },
  );

  test('shows a return of the shop in two versions', async () => {
    const { events } = await versions().listRecentEvents({});
    expect(events[0]?.id).toMatch(/^return:\d+$/);
    const preview = await versions().previewPayload({
      eventId: `return:${FAKE.returns.open}`,
      versions: ['2026-07', '2026-10'],
    });
    const [older, newer] = preview.previews.map(({ payload }) => JSON.parse(payload));
    expect([older.id, newer.id]).toEqual([11, 11]);
    expect(preview.same).toBe(older === newer || JSON.stringify(older) === JSON.stringify(newer));
    expect(preview.same).toBe(false);
  });

  test.each([
    ['another shop', { eventId: 'return:999' }, Code.NotFound],
    ['no event', { eventId: 'x' }, Code.NotFound],
    ['a topic that does not deliver it', { topic: 'label' }, Code.InvalidArgument],
  ])('refuses the preview of %s', async (_what, request, code) => {
    const asked = { ...request, versions: ['2026-07', '2026-10'] };
    expect(await errorOf(versions().previewPayload(asked))).toMatchObject({ code });
  });

  test('sends a test in a version without a change of the shop', async () => {
    let sent = '';
    under.services.webhooks.sendTest = ({ version, subscriptionId }) => {
      sent = `${subscriptionId} ${version}`;
      return { delivery: { id: FAKE.delivery, subscriptionId } };
    };
    await versions().sendVersionTest({ webhookId, version: '2026-10', idempotencyKey: key() });
    expect(sent).toBe(`${FAKE.webhook} 2026-10`);
  });

  test('lists the last test of each webhook in a version', async () => {
    let asked = '';
    under.services.webhooks.listLastTests = ({ shopId, version }) => {
      asked = `${shopId} ${version}`;
      return { deliveries: [{ ...sampleDelivery(), test: true, apiVersion: version }] };
    };
    const { deliveries } = await versions().listVersionTests({ version: '2026-10' });
    expect(asked).toBe('1 2026-10');
    expect(deliveries).toMatchObject([
      { id: FAKE.delivery, webhookId, test: true, apiVersion: '2026-10' },
    ]);
    expect(deliveries[0]?.lastAttempt).toBeDefined();
    expect(await errorOf(versions().listVersionTests({ version: '2020-01' }))).toMatchObject({
      code: Code.InvalidArgument,
    });
  });
});
