import { Code } from '@connectrpc/connect';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { SubscriptionStatus } from '../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { actor, newShop, refusal } from '../../../test/kit/services/running-service.ts';
import {
  runWebhooks,
  type WebhooksUnderTest,
} from '../../../test/kit/webhooks/running-webhooks.ts';
import { domainOf, MAX_ACTIVE_PER_DOMAIN } from './subscription-limits.ts';

let webhooks: WebhooksUnderTest;
beforeAll(async () => {
  webhooks = await runWebhooks();
});
afterAll(() => webhooks.stop());

describe('the description of a subscription', () => {
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

const FIELDS = {
  topic: 'return',
  trigger: 'return.closed',
  url: 'https://partner.example.com/hooks',
  status: SubscriptionStatus.INACTIVE,
};

/** A shop with its calls. */
function newCaller() {
  const shopId = newShop();
  return {
    create: async (o: Partial<typeof FIELDS> & { idempotencyKey?: string } = {}) => {
      const made = await webhooks.client.createSubscription({ shopId, actor, ...FIELDS, ...o });
      return { id: made.subscription?.id ?? 0n, equal: made.equalSubscriptionIds };
    },
    update: async (subscriptionId: bigint, o: Partial<typeof FIELDS>) => {
      const call = { shopId, actor, subscriptionId };
      return (await webhooks.client.updateSubscription({ ...call, ...o })).equalSubscriptionIds;
    },
    remove: (subscriptionId: bigint) =>
      webhooks.client.deleteSubscription({ shopId, actor, subscriptionId }),
  };
}

describe('a subscription with the address, topic and trigger of another one', () => {
  test('is made, and names the others by ascending id', async () => {
    const { create } = newCaller();
    const first = await create();
    const second = await create();
    const third = await create({ idempotencyKey: 'k' });
    expect(first.equal).toEqual([]);
    expect(second.equal).toEqual([first.id]);
    expect(third.equal).toEqual([first.id, second.id]);
    // A repeat does not name itself.
    expect(await create({ idempotencyKey: 'k' })).toEqual(third);
  });

  test.each([
    { topic: 'label' },
    { trigger: 'return.created' },
    { url: 'https://partner.example.com/hooks/' },
  ])('is none if it differs: %j', async (other) => {
    const { create } = newCaller();
    await create();
    expect((await create(other)).equal).toEqual([]);
  });

  test('is none if the other one was deleted, or belongs to another shop', async () => {
    const { create, remove } = newCaller();
    const { id } = await create();
    await remove(id);
    expect((await create()).equal).toEqual([]);
    expect((await newCaller().create()).equal).toEqual([]);
  });

  test('is named when an update makes them equal', async () => {
    const { create, update } = newCaller();
    const { id: first } = await create();
    const { id: second } = await create({ trigger: 'return.created' });
    expect(await update(second, { url: 'https://partner.example.com/other' })).toEqual([]);
    expect(await update(second, { url: FIELDS.url, trigger: FIELDS.trigger })).toEqual([first]);
  });
});

describe('active subscriptions to one domain for one topic and trigger', () => {
  const HOST = 'hooks.example.com';
  const wanted = { topic: 'return', trigger: 'return.closed', url: `https://${HOST}/` };
  const refused = { code: Code.ResourceExhausted, reason: 'QUOTA_EXCEEDED' };
  const { ACTIVE, INACTIVE } = SubscriptionStatus;

  interface Change {
    readonly topic?: string;
    readonly trigger?: string;
    readonly url?: string;
    readonly status?: SubscriptionStatus;
  }

  async function create(shopId: bigint, change: Change = {}): Promise<bigint> {
    const request = { shopId, actor, ...wanted, ...change };
    const { subscription } = await webhooks.client.createSubscription(request);
    return subscription?.id ?? 0n;
  }

  async function update(shopId: bigint, subscriptionId: bigint, change: Change): Promise<void> {
    await webhooks.client.updateSubscription({ shopId, actor, subscriptionId, ...change });
  }

  /** A shop with the full number of subscriptions to the host. */
  async function fullShop(): Promise<{ shopId: bigint; ids: bigint[] }> {
    const shopId = newShop();
    const ids: bigint[] = [];
    while (ids.length < MAX_ACTIVE_PER_DOMAIN) {
      ids.push(await create(shopId, { url: `https://${HOST}/${ids.length}` }));
    }
    return { shopId, ids };
  }

  async function countActive(shopId: bigint): Promise<number> {
    const { subscriptions } = await webhooks.client.listSubscriptions({ shopId, actor });
    return subscriptions.filter((one) => one.status === ACTIVE && one.url.includes(HOST)).length;
  }

  test('are limited to five; the sixth is rejected with the limit', async () => {
    const { shopId } = await fullShop();
    const sixth = create(shopId);
    await expect(sixth).rejects.toThrow(
      'at most 5 active webhook subscriptions to one domain for one pair of topic and trigger; example.com has 5',
    );
    expect(await refusal(sixth)).toMatchObject(refused);
    await create(newShop());
  });

  test.each([
    `https://${HOST}./`,
    `https://${HOST.toUpperCase()}/`,
    `https://${HOST}:8443/other`,
    `https://h%6foks.example.com/`,
    'https://ｈooks.example.com/',
    `https://other.${HOST}/`,
    'https://sub-30.example.com/',
  ])('count %s as the same domain', async (url) => {
    const { shopId } = await fullShop();
    expect(await refusal(create(shopId, { url }))).toMatchObject(refused);
  });

  test('do not limit other domains, topics, triggers and inactive ones', async () => {
    const { shopId } = await fullShop();
    await create(shopId, { url: 'https://hooks.example.org/' });
    await create(shopId, { topic: 'label' });
    await create(shopId, { trigger: 'return.created' });
    await create(shopId, { status: INACTIVE });
  });

  test('cannot be exceeded by an update of address, topic, trigger or status', async () => {
    const { shopId } = await fullShop();
    const attempts: [Change, Change][] = [
      [{ url: 'https://example.org/' }, { url: wanted.url }],
      [{ topic: 'label' }, { topic: wanted.topic }],
      [{ trigger: 'return.created' }, { trigger: wanted.trigger }],
      [{ status: INACTIVE }, { status: ACTIVE }],
      [
        { status: INACTIVE, trigger: 'return.created' },
        { ...wanted, status: ACTIVE },
      ],
    ];
    for (const [start, change] of attempts) {
      const id = await create(shopId, start);
      expect(await refusal(update(shopId, id, change))).toMatchObject(refused);
    }
  });

  test('may be changed in place, and one that ends frees a place', async () => {
    const { shopId, ids } = await fullShop();
    const [first = 0n, second = 0n] = ids;
    await update(shopId, first, { ...wanted, url: `https://${HOST}:8443/moved`, status: ACTIVE });
    await update(shopId, first, { status: INACTIVE });
    await create(shopId);
    expect(await refusal(update(shopId, first, { status: ACTIVE }))).toMatchObject(refused);
    await webhooks.client.deleteSubscription({ shopId, actor, subscriptionId: second });
    await update(shopId, first, { status: ACTIVE });
  });

  test('stay five when many are created and activated concurrently', async () => {
    const shopId = newShop();
    const sleeping = await Promise.all(
      Array.from({ length: 6 }, () => create(shopId, { status: INACTIVE })),
    );
    const results = await Promise.allSettled([
      ...Array.from({ length: 6 }, () => create(shopId)),
      ...sleeping.map((id) => update(shopId, id, { status: ACTIVE })),
    ]);
    const passed = results.filter(({ status }) => status === 'fulfilled');
    expect(passed).toHaveLength(MAX_ACTIVE_PER_DOMAIN);
    expect(await countActive(shopId)).toBe(MAX_ACTIVE_PER_DOMAIN);
  });

  test('have no limit at addresses that only a local stack may use', async () => {
    const shopId = newShop();
    for (let nth = 0; nth <= MAX_ACTIVE_PER_DOMAIN; nth += 1) {
      await create(shopId, { url: `http://127.0.0.1:9000/${nth}` });
    }
  });
});

test.each([
  ['https://BÜCHER.example/', 'xn--bcher-kva.example'],
  ['https://8.8.8.8:444/', '8.8.8.8'],
  ['https://[::ffff:8.8.8.8]/', '8.8.8.8'],
  ['https://0x8.8.8.8/', '8.8.8.8'],
  ['https://[2606:4700:0::1111]/', '2606:4700::1111'],
  ['https://a.b.example.co.uk/', 'example.co.uk'],
  ['https://one-customer.github.io/', 'one-customer.github.io'],
  ['https://github.io/', 'github.io'],
  ['https://under_score.example.com./', 'example.com'],
  ['not a url', undefined],
])('the domain of %s is %s', (url, domain) => {
  expect(domainOf(url)).toBe(domain);
});
