import { randomUUID } from 'node:crypto';
import { Code } from '@connectrpc/connect';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { AuditService } from '../../proto/gen/rms/portal/v1/audit_pb.ts';
import { FieldErrorSchema } from '../../proto/gen/rms/portal/v1/common_pb.ts';
import {
  SubscriptionStatus,
  WebhooksService,
} from '../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { invalidField } from '../../services/platform/values/errors.ts';
import { FAKE, sampleSubscription } from '../../test/kit/gateway/fake-objects.ts';
import { startTestGateway, type TestGateway } from '../../test/kit/gateway/test-gateway.ts';
import { errorOf, type PortalPerson, portalPerson } from '../../test/kit/portal/portal.ts';
import { until } from '../../test/kit/until.ts';

let under: TestGateway;
let owner: PortalPerson;
beforeAll(async () => {
  under = await startTestGateway();
  owner = await portalPerson(under, { shopId: await under.newShop(), role: 'owner' });
});
afterEach(() => under.resetServices());
afterAll(() => under.stop());

const webhooks = () => owner.client(WebhooksService);
const key = () => ({ idempotencyKey: randomUUID() });
const subscriptionId = FAKE.webhook;
const { topic, trigger, url } = sampleSubscription();
const described = (description: string) => ({ ...sampleSubscription(), description });

describe('the description of a webhook in the portal', () => {
  test('is set, shown and listed as it was written', async () => {
    const description = '<b>Warehouse</b>';
    under.services.webhooks.createSubscription = (request) => ({
      subscription: described(request.description),
      secret: FAKE.secret,
    });
    under.services.webhooks.getSubscription = () => ({ subscription: described(description) });
    under.services.webhooks.listSubscriptions = () => ({
      subscriptions: [described(description), sampleSubscription()],
    });
    const content = { topic, trigger, url, description };
    const created = await webhooks().createSubscription({ ...content, ...key() });
    expect(created.subscription?.description).toBe(description);
    expect((await webhooks().getSubscription({ subscriptionId })).subscription?.description).toBe(
      description,
    );
    const listed = await webhooks().listSubscriptions({});
    expect(listed.subscriptions.map((one) => one.description)).toEqual([description, '']);
  });

  test('is kept by a change without it, and removed by an empty one', async () => {
    const asked: unknown[] = [];
    under.services.webhooks.updateSubscription = ({ description }) => {
      asked.push(description);
      return { subscription: sampleSubscription() };
    };
    for (const change of [
      { status: SubscriptionStatus.INACTIVE },
      { description: '' },
      { description: 'x' },
    ]) {
      await webhooks().updateSubscription({ subscriptionId, ...change, ...key() });
    }
    expect(asked).toEqual([undefined, '', 'x']);
  });

  test('that is not allowed is named with its rule', async () => {
    under.services.webhooks.updateSubscription = () => {
      throw invalidField('description', 'must be at most 200 characters');
    };
    const change = { subscriptionId, description: 'x'.repeat(201), ...key() };
    const error = await errorOf(webhooks().updateSubscription(change));
    expect(error).toMatchObject({
      code: Code.InvalidArgument,
      rawMessage: 'description must be at most 200 characters.',
    });
    expect(error.findDetails(FieldErrorSchema)).toMatchObject([{ field: 'description' }]);
  });

  test('is in the audit log, from and to', async () => {
    const [before, after] = [`Warehouse ${randomUUID()}`, `Accounting ${randomUUID()}`];
    under.services.webhooks.updateSubscription = () => ({
      subscription: described(after),
      previous: described(before),
    });
    under.services.webhooks.deleteSubscription = () => ({ previous: described(after) });
    await webhooks().updateSubscription({ subscriptionId, description: after, ...key() });
    await webhooks().deleteSubscription({ subscriptionId });
    const found = (text: string, what: string) =>
      until(async () => {
        const audit = owner.client(AuditService);
        const { entries } = await audit.listAuditEntries({ filter: { text } });
        return entries.find((entry) => entry.what === what && entry.outcome === 'done');
      });
    expect((await found(before, 'Change a webhook')).changes).toMatchObject([
      { field: 'description', from: before, to: after },
    ]);
    expect((await found(after, 'Delete a webhook')).changes).toContainEqual(
      expect.objectContaining({ field: 'description', from: after, to: '' }),
    );
  });
});
