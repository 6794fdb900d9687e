import { create } from '@bufbuild/protobuf';
import { Code } from '@connectrpc/connect';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { AuditService } from '../../proto/gen/rms/portal/v1/audit_pb.ts';
import { FieldErrorSchema } from '../../proto/gen/rms/portal/v1/common_pb.ts';
import { PayloadsService } from '../../proto/gen/rms/portal/v1/payloads_pb.ts';
import { ReturnState } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import { SearchReturnsRequest_Sort as Sort } from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import {
  DeliveryState,
  GetSubscriptionResponseSchema,
  ReplayKind,
  ReplayState,
  WebhooksService,
} from '../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { sampleReturn } from '../../services/contract/sample-return.ts';
import { TRIGGERS } from '../../services/contract/vocabulary.ts';
import { FAKE, sampleDelivery, sampleSubscription } from '../../test/kit/gateway/fake-objects.ts';
import { startTestGateway, type TestGateway } from '../../test/kit/gateway/test-gateway.ts';
import { errorOf, type PortalPerson, portalPerson } from '../../test/kit/portal/portal.ts';
import { until } from '../../test/kit/until.ts';
import { entryOf } from './methods.ts';

let under: TestGateway;
let developer: PortalPerson;
beforeAll(async () => {
  under = await startTestGateway();
  developer = await portalPerson(under, { shopId: 1n, role: 'developer' });
});
afterEach(() => under.resetServices());
afterAll(() => under.stop());

const webhooks = () => developer.client(WebhooksService);
const payloads = () => developer.client(PayloadsService);
const key = (): string => crypto.randomUUID();
const subscriptionId = FAKE.webhook;

describe('webhooks in the portal', () => {
  test('are read with shop and actor of the session, whatever the page sends', async () => {
    under.services.webhooks.listSubscriptions = (request) => {
      expect(request).toMatchObject({
        shopId: 1n,
        includeBacklog: true,
        includeHealth: true,
        actor: { id: String(developer.userId), through: 'portal' },
      });
      return { subscriptions: [sampleSubscription()] };
    };
    const asked = { shopId: 2n, actor: { id: '7' }, includeBacklog: true, includeHealth: true };
    const { subscriptions } = await webhooks().listSubscriptions(asked);
    expect(subscriptions).toMatchObject([sampleSubscription()]);
  });

  test('are created with a secret; a wrong address names the field', async () => {
    const body = { topic: 'return', trigger: 'return.closed', idempotencyKey: key() };
    const created = await webhooks().createSubscription({
      ...body,
      url: 'https://example.com/hook',
    });
    expect(created.secret).toMatch(/^whsec_/);
    const error = await errorOf(webhooks().createSubscription({ ...body, url: 'http://10.0.0.1' }));
    expect(error).toMatchObject({
      code: Code.InvalidArgument,
      rawMessage: 'The url must be an absolute https address.',
    });
    expect(error.findDetails(FieldErrorSchema)).toMatchObject([{ field: 'url' }]);
  });

  test('that do not exist are NOT_FOUND', async () => {
    expect(await errorOf(webhooks().deleteSubscription({ subscriptionId: 999n }))).toMatchObject({
      code: Code.NotFound,
    });
    expect(await errorOf(webhooks().getDelivery({ deliveryId: 'msg_x' }))).toMatchObject({
      code: Code.NotFound,
    });
  });

  test('show what a receiver answered to those who may read deliveries', async () => {
    const lastFailure = { status: 500, error: 'answered 500', responseExcerpt: 'no such key' };
    under.services.webhooks.getSubscription = () => ({
      subscription: { ...sampleSubscription(), failures: 1, lastFailure },
    });
    const { subscription } = await webhooks().getSubscription({ subscriptionId });
    expect(subscription?.lastFailure).toMatchObject(lastFailure);
    // No role of today may see webhooks without their deliveries.
    const response = create(GetSubscriptionResponseSchema, { subscription: { lastFailure } });
    entryOf(WebhooksService.method.getSubscription)?.hide?.(response, () => false);
    expect(response.subscription?.lastFailure?.responseExcerpt).toBe('');
  });

  test('do not have what they were before a change', async () => {
    const previous = sampleSubscription();
    under.services.webhooks.updateSubscription = () => ({
      subscription: sampleSubscription(),
      previous,
    });
    under.services.webhooks.deleteSubscription = () => ({ previous });
    const change = { subscriptionId, idempotencyKey: key() };
    expect((await webhooks().updateSubscription(change)).previous).toBeUndefined();
    expect((await webhooks().deleteSubscription({ subscriptionId })).previous).toBeUndefined();
  });

  test('show a delivery with all its attempts, and lists with the last one', async () => {
    const delivery = sampleDelivery();
    const attempts = delivery.attempts.flatMap((one) => [one, { ...one, number: 2 }]);
    const twice = { ...delivery, attempts };
    under.services.webhooks.getDelivery = () => ({ delivery: twice });
    under.services.webhooks.listDeliveries = () => ({ deliveries: [twice] });
    under.services.webhooks.listLastTests = () => ({ deliveries: [twice] });
    const one = await webhooks().getDelivery({ deliveryId: FAKE.delivery, includeBody: true });
    expect(one.delivery?.attempts.map(({ number }) => number)).toEqual([1, 2]);
    expect(one.delivery).toMatchObject({ body: delivery.body, returnId: FAKE.returns.open });
    for (const list of [
      webhooks().listDeliveries({ subscriptionId }),
      webhooks().listLastTests({ version: '2026-10' }),
    ]) {
      expect((await list).deliveries[0]?.attempts).toMatchObject([{ number: 2 }]);
    }
  });

  test('are replayed with one key for each click', async () => {
    under.services.webhooks.startReplay = ({ filter, idempotencyKey }) => {
      expect(idempotencyKey).toMatch(/^portal-[0-9a-f]{64}$/);
      const replay = { id: 7n, kind: ReplayKind.REPLAY, state: ReplayState.RUNNING, total: 4 };
      return { replay: { ...replay, ...(filter && { filter }) } };
    };
    const filter = { subscriptionId, states: [DeliveryState.EXHAUSTED] };
    const started = await webhooks().startReplay({ filter, idempotencyKey: key() });
    expect(started.replay).toMatchObject({ id: 7n, filter });
    expect(await errorOf(webhooks().startReplay({ filter }))).toMatchObject({
      code: Code.InvalidArgument,
    });
  });

  test('set the payload version without a word of the one before', async () => {
    under.services.webhooks.setPayloadVersion = ({ version, expectedVersion: previous }) => {
      expect(previous).toBe('2026-07');
      return { version, previous };
    };
    const change = { version: '2026-10', expectedVersion: '2026-07' };
    expect(await webhooks().setPayloadVersion(change)).toMatchObject({
      version: '2026-10',
      previous: '',
    });
  });
});

describe('the payload version in the portal', () => {
  test('is that of the shop, with the versions that it can have', async () => {
    const current = await payloads().getPayloadVersion({});
    expect(current.version).toBe('2026-07');
    expect(current.versions.map(({ version }) => version)).toEqual(['2026-10', '2026-07']);
  });

  test('say which topic delivers which trigger', async () => {
    const { topics, triggers } = await payloads().listEventTypes({});
    expect(topics.find(({ topic }) => topic === 'label')?.delivers).toEqual([
      'label.created',
      'label.updated',
    ]);
    expect(triggers.map(({ name }) => name)).toEqual(TRIGGERS);
  });

  test('offers the returns that changed last', async () => {
    under.services.returns.searchReturns = (request) => {
      expect(request).toMatchObject({ shopId: 1n, sort: Sort.UPDATED_DESC });
      return { returns: [] };
    };
    expect((await payloads().listRecentEvents({})).events).toEqual([]);
  });

  test('says what each version changes, and for which topics', async () => {
    const { versions: listed } = await payloads().getPayloadVersion({});
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
      const { events } = await payloads().listRecentEvents({ versions: names });
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
      expect(await errorOf(payloads().listRecentEvents({ versions: names }))).toMatchObject({
        code: Code.InvalidArgument,
      });
    },
  );

  test('shows a return of the shop in two versions', async () => {
    const { events } = await payloads().listRecentEvents({});
    expect(events[0]?.id).toMatch(/^return:\d+$/);
    const preview = await payloads().previewPayload({
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
    expect(await errorOf(payloads().previewPayload(asked))).toMatchObject({ code });
  });

  test('of a test event is in the audit log', async () => {
    const owner = await portalPerson(under, { shopId: 1n, role: 'owner' });
    const test = { subscriptionId, version: '2026-10', idempotencyKey: key() };
    await owner.client(WebhooksService).sendTest(test);
    const entry = await until(async () => {
      const filter = { text: owner.email };
      const { entries } = await owner.client(AuditService).listAuditEntries({ filter });
      return entries.find(({ outcome }) => outcome === 'done');
    });
    expect(entry).toMatchObject({
      action: 'portal.send_test_webhook',
      subject: String(subscriptionId),
      changes: [{ field: 'version', to: '2026-10' }],
    });
  });
});
