import { Code } from '@connectrpc/connect';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { actor, newShop, refusal } from '../../../test/kit/services/running-service.ts';
import {
  runWebhooks,
  type WebhooksUnderTest,
} from '../../../test/kit/webhooks/running-webhooks.ts';

let webhooks: WebhooksUnderTest;
beforeAll(async () => {
  webhooks = await runWebhooks();
});
afterAll(() => webhooks.stop());

const url = 'https://partner.example.com/hooks';
const fields = { topic: 'return', trigger: 'return.closed', url };
const conflict = { reason: 'IDEMPOTENCY_CONFLICT', field: 'idempotency_key' };

const create = (
  shopId: bigint,
  more: { description?: string; idempotencyKey?: string; url?: string },
) => webhooks.client.createSubscription({ shopId, actor, ...fields, ...more });

/** A new subscription with this description. */
async function described(description: string) {
  const shopId = newShop();
  const { subscription } = await create(shopId, { description });
  return { shopId, actor, subscriptionId: subscription?.id ?? 0n };
}

type Target = Awaited<ReturnType<typeof described>>;

async function stored({ shopId }: Target): Promise<string | undefined> {
  const { subscriptions } = await webhooks.client.listSubscriptions({ shopId, actor });
  return subscriptions[0]?.description;
}

describe('the description of a subscription', () => {
  test.each([
    ['Warehouse', 'Warehouse'],
    ['  Entrepôt de Zoë\u{3000}\n', 'Entrepôt de Zoë'],
    ['<b>"Lager" & \'Büro\'</b>', '<b>"Lager" & \'Büro\'</b>'],
    ['מחסן ראשי', 'מחסן ראשי'],
    ['👩‍🔧 repairs', '👩‍🔧 repairs'],
    ['🏷'.repeat(200), '🏷'.repeat(200)],
    [' \t ', ''],
    ['\u{200b}\u{3164}', ''],
    ['', ''],
  ])('%j is stored as %j, and is in every response', async (text, description) => {
    const shopId = newShop();
    const { subscription } = await create(shopId, { description: text });
    expect(subscription?.description).toBe(description);
    const about = { shopId, actor, subscriptionId: subscription?.id ?? 0n };
    expect((await webhooks.client.getSubscription(about)).subscription?.description).toBe(
      description,
    );
    const list = { shopId, actor, includeHealth: true };
    const { subscriptions } = await webhooks.client.listSubscriptions(list);
    expect(subscriptions[0]?.description).toBe(description);
    expect(await stored(about)).toBe(description);
  });

  test.each([
    ['too long', '🏷'.repeat(201), 'must be at most 200 characters'],
    ['a line break', 'one\ntwo', 'must be one line without control characters'],
    ['a separator of lines', 'one\u{2028}two', 'must be one line without control characters'],
    ['a tab', 'one\ttwo', 'must be one line without control characters'],
    ['a NUL', 'one\0', 'must be one line without control characters'],
    ['an escape sequence', '\u{1b}[31mred', 'must be one line without control characters'],
    [
      'another direction of text',
      '\u{202e}moc.elpmaxe',
      'must be one line without control characters',
    ],
  ])('is rejected with %s, by create and update', async (_what, description, rule) => {
    const target = await described('Warehouse');
    const calls = [
      () => create(target.shopId, { description }),
      () => webhooks.client.updateSubscription({ ...target, description }),
    ];
    for (const call of calls) {
      await expect(call()).rejects.toMatchObject({ rawMessage: `description ${rule}` });
      expect(await refusal(call())).toEqual({
        code: Code.InvalidArgument,
        reason: 'INVALID_FIELD',
        field: 'description',
      });
    }
    expect(await stored(target)).toBe('Warehouse');
  });

  test('is checked before the address', async () => {
    const call = create(newShop(), { description: 'one\ntwo', url: 'http://10.0.0.1/' });
    expect(await refusal(call)).toMatchObject({ field: 'description' });
  });

  test('is kept by an update without it, changed, and removed by an empty one', async () => {
    const target = await described('Warehouse');
    const update = async (change: object) => {
      const updated = await webhooks.client.updateSubscription({ ...target, ...change });
      return [updated.previous?.description, updated.subscription?.description];
    };
    expect(await update({ ...fields, url: `${url}/new` })).toEqual(['Warehouse', 'Warehouse']);
    expect(await update({ description: ' Accounting ' })).toEqual(['Warehouse', 'Accounting']);
    expect(await update({ description: ' ' })).toEqual(['Accounting', '']);
    expect(await stored(target)).toBe('');
  });

  test('ends with the subscription', async () => {
    const target = await described('Warehouse');
    const { previous } = await webhooks.client.deleteSubscription(target);
    expect(previous?.description).toBe('Warehouse');
    const { rows } = await webhooks.db.pool.query(
      'select description from subscriptions where shop_id = $1',
      [target.shopId],
    );
    expect(rows).toEqual([{ description: '' }]);
  });

  test('belongs to the content of a create with a key', async () => {
    const shopId = newShop();
    const made = (description?: string) =>
      create(shopId, { idempotencyKey: 'k-1', ...(description !== undefined && { description }) });
    const [first, second] = await Promise.all([made('Warehouse'), made('Warehouse')]);
    expect(second).toEqual(first);
    expect(await refusal(made('Accounting'))).toMatchObject(conflict);
    expect(await refusal(made())).toMatchObject(conflict);
    const { subscriptions } = await webhooks.client.listSubscriptions({ shopId, actor });
    expect(subscriptions).toEqual([first.subscription]);
  });

  test('belongs to the content of an update with a key, which is applied once', async () => {
    const target = await described('Warehouse');
    const update = (description?: string, idempotencyKey = 'k-1') =>
      webhooks.client.updateSubscription({
        ...target,
        idempotencyKey,
        ...(description !== undefined && { description }),
      });
    await update('Accounting');
    await update('Support', 'k-2');
    const repeated = await update('Accounting');
    expect([repeated.subscription?.description, repeated.previous]).toEqual(['Support', undefined]);
    for (const other of ['Warehouse', '', undefined]) {
      expect(await refusal(update(other))).toMatchObject(conflict);
    }
    // No description, and no change of the description, are two contents.
    await update('', 'k-3');
    expect(await refusal(update(undefined, 'k-3'))).toMatchObject(conflict);
    expect(await stored(target)).toBe('');
  });

  test('is empty for a subscription of code that does not know it', async () => {
    const target = await described('Warehouse');
    await webhooks.db.pool.query(
      `insert into subscriptions (shop_id, topic, trigger, endpoint_id, status)
       select shop_id, topic, 'return.created', endpoint_id, status from subscriptions where shop_id = $1`,
      [target.shopId],
    );
    const { subscriptions } = await webhooks.client.listSubscriptions(target);
    expect(subscriptions.map(({ description }) => description)).toEqual(['Warehouse', '']);
  });
});
