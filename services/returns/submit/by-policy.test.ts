import { randomUUID } from 'node:crypto';
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { Actor_Kind, ActorSchema } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import { ErrorReason } from '../../../proto/gen/rms/common/v1/error_pb.ts';
import {
  Ineligibility_Code,
  type PolicySchema,
} from '../../../proto/gen/rms/returns/v1/policy_pb.ts';
import {
  LineOutcome,
  Outcome,
  PolicyUse,
  ReturnMethod,
  ReturnState,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { RedactCustomerRequestSchema } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { returnRequest, type SubmissionPart, submission } from '../../../test/kit/builders.ts';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import { actor, newShop, submitDeps } from '../../../test/kit/services/processing.ts';
import {
  invalid,
  notEligible,
  order,
  shopWithOrder,
} from '../../../test/kit/services/shop-with-order.ts';
import { redactCustomer } from '../retention/redact.ts';
import { submitReturn } from './submit.ts';

let db: TestDatabase;
let shopId: bigint;
let shop: ReturnType<typeof shopWithOrder>;
beforeAll(async () => {
  db = await createTestDatabase('returns');
});
afterAll(() => db.drop());
beforeEach(async () => {
  shopId = await newShop(db.pool);
  shop = shopWithOrder({ pool: db.pool, shopId });
});

describe('a submission that finds its order', () => {
  test('has the amounts of its units, in both currencies, and refunds them', async () => {
    const { return: made } = await shop.submit({
      lines: [
        { providerLineItemId: 9001n, quantity: 2, reason: 'Broken', comment: 'In two pieces' },
        { sku: 'HAT', quantity: 1 },
      ],
    });
    expect(made).toMatchObject({
      order: { providerOrderId: 445n, name: '#1001' },
      customer: { email: 'Ada@Example.com' },
      state: ReturnState.OPEN,
      outcome: Outcome.REFUND,
      returnMethod: ReturnMethod.MAIL,
      totals: { refund: '30.00', returnCreditTotal: '0.00', handlingFee: '0.00' },
      presentmentTotals: { refund: '4650' },
      lineItems: [
        { quantity: 2, outcome: LineOutcome.REFUND, amounts: { price: '22.00' }, reason: 'Broken' },
        { quantity: 1, sku: 'HAT', presentmentAmounts: { price: '1705', tax: '155' } },
      ],
    });
    const { rows } = await db.pool.query(
      'select kind, text from timeline where shop_id = $1 order by id',
      [shopId],
    );
    expect(rows).toMatchObject([
      { kind: 'return.submitted' },
      { kind: 'return.commented', text: 'Mug: In two pieces' },
    ]);
  });

  test('gives credit', async () => {
    const { return: made } = await shop.submit({ outcome: Outcome.CREDIT });
    expect(made).toMatchObject({
      outcome: Outcome.CREDIT,
      totals: { refund: '0.00', returnCreditTotal: '10.00', giftCard: '10.00' },
      lineItems: [{ outcome: LineOutcome.CREDIT }],
    });
  });

  test('exchanges each unit for the same variant at equal value', async () => {
    const lines = [{ providerLineItemId: 9001n, quantity: 2, exchangeVariant: 'Blue' }];
    const { return: made } = await shop.submit({ outcome: Outcome.EXCHANGE, lines });
    expect(made).toMatchObject({
      outcome: Outcome.EXCHANGE,
      totals: {
        refund: '0.00',
        returnCreditTotal: '20.00',
        exchangeTotal: '20.00',
        upsell: '0.00',
      },
      presentmentTotals: { exchangeTotal: '3100', upsell: '0' },
      exchanges: [
        { productId: 3n, variantId: 5n, sku: 'MUG-1', total: { shop: '10.00' } },
        { variantId: 5n, total: { shop: '10.00' } },
      ],
    });
  });

  const forVariant = (exchangeVariant: string) => ({
    providerLineItemId: 9001n,
    quantity: 1,
    outcome: LineOutcome.EXCHANGE,
    exchangeVariant,
  });

  test('exchanges for a dearer variant at its own price, and the shopper pays the difference', async () => {
    expect((await shop.submit({ lines: [forVariant('Gold')] })).return).toMatchObject({
      outcome: Outcome.UPSELL,
      totals: { returnCreditTotal: '10.00', exchangeTotal: '13.00', upsell: '3.00' },
      presentmentTotals: { exchangeTotal: '2015', upsell: '465' },
      exchanges: [{ productId: 3n, variantId: 6n, sku: 'MUG-G', title: 'Mug - Gold' }],
    });
  });

  test('exchanges goods with the longest title that a platform may have', async () => {
    const lines = order.lines.map((one) => ({ ...one, title: 'A'.repeat(191) }));
    const platform = shop.platform({ ...order, lines });
    const { return: made } = await shop.submit({ outcome: Outcome.EXCHANGE }, platform);
    expect(made.exchanges[0]?.title).toBe('A'.repeat(191));
  });

  test('exchanges for a cheaper variant, and refunds the difference in both currencies', async () => {
    expect((await shop.submit({ lines: [forVariant('MUG-W')] })).return).toMatchObject({
      outcome: Outcome.EXCHANGE_REFUND,
      totals: { returnCreditTotal: '7.00', exchangeTotal: '7.00', refund: '3.00' },
      presentmentTotals: { exchangeTotal: '1085', refund: '465' },
    });
  });

  test('gives the difference as credit where the policy offers no refund', async () => {
    await shop.setPolicy({ outcomes: [Outcome.EXCHANGE, Outcome.CREDIT] });
    expect((await shop.submit({ lines: [forVariant('7')] })).return).toMatchObject({
      outcome: Outcome.EXCHANGE_CREDIT,
      totals: { exchangeTotal: '7.00', giftCard: '3.00', refund: '0.00' },
    });
  });

  test('pays a dearer variant with what other line items refund', async () => {
    const hat = { providerLineItemId: 9002n, quantity: 1, outcome: LineOutcome.REFUND };
    expect((await shop.submit({ lines: [forVariant('Gold'), hat] })).return).toMatchObject({
      outcome: Outcome.EXCHANGE_REFUND,
      totals: {
        exchangeTotal: '13.00',
        returnCreditTotal: '13.00',
        refund: '7.00',
        upsell: '0.00',
      },
    });
  });

  test('exchanges some lines and refunds others', async () => {
    const { return: made } = await shop.submit({
      lines: [
        { providerLineItemId: 9001n, quantity: 1, outcome: LineOutcome.EXCHANGE },
        { providerLineItemId: 9002n, quantity: 1, outcome: LineOutcome.REFUND },
      ],
    });
    expect(made).toMatchObject({
      outcome: Outcome.EXCHANGE_REFUND,
      totals: { refund: '10.00', exchangeTotal: '10.00', returnCreditTotal: '10.00' },
    });
  });

  test('exchanges some lines and gives credit for others', async () => {
    const { return: made } = await shop.submit({
      outcome: Outcome.CREDIT,
      lines: [
        { providerLineItemId: 9001n, quantity: 1, outcome: LineOutcome.EXCHANGE },
        { providerLineItemId: 9002n, quantity: 1 },
      ],
    });
    expect(made).toMatchObject({
      outcome: Outcome.EXCHANGE_CREDIT,
      totals: { refund: '0.00', giftCard: '10.00', exchangeTotal: '10.00' },
    });
  });

  const LINE = { providerLineItemId: 9001n, quantity: 1 };
  test.each<[string, SubmissionPart, string]>([
    ['without line items', { lines: [] }, 'lines'],
    ['without units', { lines: [{ providerLineItemId: 9001n }] }, 'lines[0].quantity'],
    [
      'of more units than ordered',
      { lines: [{ ...LINE, providerLineItemId: 9002n, quantity: 9 }] },
      '',
    ],
    [
      'of a line that is not in the order',
      { lines: [{ sku: 'CUP', quantity: 1 }] },
      'lines[0].sku',
    ],
    ['of one line twice', { lines: [LINE, LINE] }, 'lines[1].provider_line_item_id'],
    ['that states a price', { lines: [{ ...LINE, price: { shop: '1' } }] }, 'lines[0].price'],
    ['that states amounts', { amounts: { handlingFee: { shop: '1' } } }, 'amounts'],
    [
      'with a refund and credit',
      {
        lines: [
          { ...LINE, outcome: LineOutcome.CREDIT },
          { ...LINE, providerLineItemId: 9002n },
        ],
        outcome: Outcome.REFUND,
      },
      'lines',
    ],
    [
      'with an outcome that its lines contradict',
      { outcome: Outcome.EXCHANGE_REFUND, lines: [{ ...LINE, outcome: LineOutcome.REFUND }] },
      'outcome',
    ],
    [
      'with several outcomes and no word on a line',
      { outcome: Outcome.EXCHANGE_REFUND },
      'lines[0].outcome',
    ],
    [
      'for another variant',
      { lines: [{ ...LINE, outcome: LineOutcome.EXCHANGE, exchangeVariant: 'Red' }] },
      'lines[0].exchange_variant',
    ],
    ['by both name and id', { order: { name: '#1001', providerOrderId: 445n } }, 'order.name'],
  ])('%s is rejected (%#)', async (_, more, field) => {
    const failed = shop.submit(more);
    if (field === '')
      await expect(failed).rejects.toMatchObject({ reason: ErrorReason.NOT_ELIGIBLE });
    else await expect(failed).rejects.toMatchObject(invalid(field));
    expect(await countReturns()).toBe(0);
  });

  test('of another e-mail address has the error of an order that does not exist', async () => {
    const errors = await Promise.all(
      [
        shop.submit({ orderEmail: 'bob@example.com' }),
        shop.submit(
          {},
          shop.finding(async () => undefined),
        ),
      ].map((one) => one.catch((error: unknown) => error)),
    );
    expect(errors[0]).toMatchObject({ reason: ErrorReason.ORDER_NOT_FOUND });
    expect(errors[0]).toEqual(errors[1]);
    expect((await shop.submit({ orderEmail: ' ADA@example.com' })).return.id).toBeGreaterThan(0n);
  });

  test('is one return for one key, and other content is a conflict', async () => {
    const idempotencyKey = randomUUID();
    const all = await Promise.all([1, 2, 3].map(() => shop.submit({ idempotencyKey })));
    expect(new Set(all.map((one) => one.return.id)).size).toBe(1);
    expect(all.filter(({ repeated }) => !repeated)).toHaveLength(1);
    const lines = [{ providerLineItemId: 9002n, quantity: 1 }];
    await expect(shop.submit({ idempotencyKey, lines })).rejects.toMatchObject({
      reason: ErrorReason.IDEMPOTENCY_CONFLICT,
    });
  });

  test('repeated while its first call is under way, the second waits and gets the first return', async () => {
    const call = {
      idempotencyKey: randomUUID(),
      lines: [{ providerLineItemId: 9001n, quantity: 2 }],
    };
    const [asked, answered] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const slow = shop.finding(async () => {
      asked.resolve();
      await answered.promise;
      return order;
    });
    const second = shop.submit(call, slow);
    await asked.promise;
    const first = await shop.submit(call);
    answered.resolve();
    expect(await second).toMatchObject({ repeated: true, return: { id: first.return.id } });
  });

  async function countReturns(): Promise<number> {
    const { rows } = await db.pool.query<{ count: number }>(
      'select count(*)::int as count from returns where shop_id = $1',
      [shopId],
    );
    return rows[0]?.count ?? 0;
  }

  test.each([2, 200])('%d at once for the last unit make one return', async (count) => {
    await shop.submit();
    const results = await Promise.allSettled(Array.from({ length: count }, () => shop.submit()));
    const made = results.filter(({ status }) => status === 'fulfilled');
    const refused = results.flatMap((one) => (one.status === 'rejected' ? [one.reason] : []));
    expect([made.length, await countReturns()]).toEqual([1, 2]);
    for (const error of refused) {
      expect(error).toMatchObject(notEligible(Ineligibility_Code.IN_OPEN_RETURN));
    }
  });

  test('waits for a return that takes the last unit, and is then refused', async () => {
    await shop.submit();
    const client = await db.pool.connect();
    await client.query('begin');
    await client.query('select from orders where shop_id = $1 for update', [shopId]);
    const two = [shop.submit(), shop.submit()].map((one) =>
      one.then(
        () => 'made',
        (error) => error.reason,
      ),
    );
    await client.query('commit');
    client.release();
    expect((await Promise.all(two)).toSorted()).toEqual([ErrorReason.NOT_ELIGIBLE, 'made']);
  });

  test('may be for units of a line that is in another return', async () => {
    const [one, two] = await Promise.all([shop.submit(), shop.submit()]);
    expect(one.return.id).not.toBe(two.return.id);
  });
});

describe('the policy', () => {
  const lines = (more: object = {}) => [{ providerLineItemId: 9001n, quantity: 1, ...more }];

  test.each<[string, MessageInitShape<typeof PolicySchema>, Ineligibility_Code]>([
    ['window', { window: { days: 9 } }, Ineligibility_Code.WINDOW_ENDED],
    ['final sale', { finalSale: { tags: ['kitchen'] } }, Ineligibility_Code.FINAL_SALE],
    ['countries', { countries: ['DE'] }, Ineligibility_Code.COUNTRY_NOT_SERVED],
  ])('refuses by its %s, writes nothing, and can be overridden', async (_, policy, code) => {
    await shop.setPolicy(policy);
    await expect(shop.submit()).rejects.toMatchObject(notEligible(code));
    const { return: made } = await shop.submit({ policy: PolicyUse.OVERRIDE });
    expect(made.policyVersion).toBe(1n);
    const { rows } = await db.pool.query<{ facts: object }>(
      `select facts from timeline where shop_id = $1 and kind = 'return.submitted'`,
      [shopId],
    );
    expect(rows).toMatchObject([{ facts: { policy_version: '1', policy_override: 'true' } }]);
  });

  test('is not asked without a word', async () => {
    await shop.setPolicy({ window: { days: 0 }, fees: [{ fee: { case: 'amount', value: '1' } }] });
    const { return: made } = await shop.submit({ policy: PolicyUse.UNSPECIFIED });
    expect(made.policyVersion).toBeUndefined();
    expect(made).toMatchObject({ totals: { handlingFee: '0.00' } });
  });

  test('cannot be overridden for units that are gone', async () => {
    await shop.submit({ lines: lines({ quantity: 2 }) });
    const again = shop.submit({ policy: PolicyUse.OVERRIDE });
    await expect(again).rejects.toMatchObject(notEligible(Ineligibility_Code.IN_OPEN_RETURN));
  });

  test('that offers only a mixed outcome offers its parts, and nothing else', async () => {
    await shop.setPolicy({ outcomes: [Outcome.EXCHANGE_REFUND] });
    await expect(shop.submit()).rejects.toMatchObject(invalid('outcome'));
    const mixed = [
      { providerLineItemId: 9001n, quantity: 1, outcome: LineOutcome.EXCHANGE },
      { providerLineItemId: 9002n, quantity: 1, outcome: LineOutcome.REFUND },
    ];
    const { return: made } = await shop.submit({ lines: mixed });
    expect(made.outcome).toBe(Outcome.EXCHANGE_REFUND);
  });

  test('offers outcomes, methods and reasons; others are invalid', async () => {
    await shop.setPolicy({
      outcomes: [Outcome.CREDIT, Outcome.EXCHANGE],
      returnMethods: [ReturnMethod.IN_STORE],
      reasons: [
        { code: 'small', parent: 'size', label: { en: 'Too small' } },
        { code: 'other', label: { en: 'Other' }, asksComment: true },
      ],
    });
    for (const [more, field] of [
      [{ outcome: Outcome.REFUND }, 'outcome'],
      [{ lines: lines({ outcome: LineOutcome.REFUND }) }, 'lines[0].outcome'],
      [{ returnMethod: ReturnMethod.MAIL }, 'return_method'],
      [{ lines: lines({ reason: 'Broken' }) }, 'lines[0].reason'],
      [{ lines: lines({ reason: 'other' }) }, 'lines[0].comment'],
    ] as const) {
      await expect(shop.submit(more)).rejects.toMatchObject(invalid(field));
    }
    const { return: made } = await shop.submit({ lines: lines({ reason: 'small' }) });
    expect(made).toMatchObject({
      outcome: Outcome.EXCHANGE,
      returnMethod: ReturnMethod.IN_STORE,
      lineItems: [{ reason: 'small', parentReason: 'size' }],
    });
    const all = { outcome: Outcome.REFUND, returnMethod: ReturnMethod.MAIL };
    const overridden = await shop.submit({ ...all, policy: PolicyUse.OVERRIDE });
    expect(overridden.return).toMatchObject(all);
  });

  test('has a fee that a refund pays first, in both currencies', async () => {
    await shop.setPolicy({ fees: [{ fee: { case: 'amount', value: '2.00' } }] });
    expect((await shop.submit()).return).toMatchObject({
      totals: { handlingFee: '2.00', refund: '8.00' },
      presentmentTotals: { handlingFee: '310', refund: '1240' },
    });
  });

  test('has a fee that credit pays, and at most all of it', async () => {
    await shop.setPolicy({ fees: [{ fee: { case: 'amount', value: '99.00' } }] });
    expect((await shop.submit({ outcome: Outcome.CREDIT })).return).toMatchObject({
      totals: { handlingFee: '10.00', returnCreditTotal: '0.00', refund: '0.00' },
    });
  });

  test('has a fee of an exchange that the shopper pays', async () => {
    const percentage = (value: string) => ({ case: 'percentage', value }) as const;
    const fees = [
      { outcome: Outcome.UPSELL, fee: percentage('50') },
      { outcome: Outcome.EXCHANGE, fee: percentage('10') },
    ];
    await shop.setPolicy({ fees });
    const upsellOf = async (exchangeVariant: string) => {
      const line = { providerLineItemId: 9001n, quantity: 1, exchangeVariant };
      const { return: made } = await shop.submit({ outcome: Outcome.EXCHANGE, lines: [line] });
      expect(made.outcome).toBe(Outcome.UPSELL);
      return [made.totals?.handlingFee, made.totals?.returnCreditTotal, made.totals?.upsell];
    };
    expect(await upsellOf('')).toEqual(['1.00', '9.00', '1.00']);
    expect(await upsellOf('Gold')).toEqual(['5.00', '5.00', '8.00']);
  });
});

describe('a submission that states its order', () => {
  const stated = (more: SubmissionPart = {}) =>
    submission(
      returnRequest(shopId, {
        order: { providerOrderId: 445n, name: '#1001' },
        outcome: Outcome.UNSPECIFIED,
        policy: PolicyUse.APPLY,
        lines: [
          {
            providerLineItemId: 9001n,
            sku: 'MUG-1',
            quantity: 1,
            orderedQuantity: 2,
            price: { shop: '20.00' },
            discount: { shop: '2.00' },
            tax: { shop: '1.00' },
          },
        ],
        ...more,
      }),
    );
  const submitStated = (more?: SubmissionPart) => submitReturn(submitDeps(db.pool), stated(more));

  test('is judged by the policy, as far as it says what the policy needs', async () => {
    await shop.setPolicy({ finalSale: { skus: ['MUG-*'] } });
    await expect(submitStated()).rejects.toMatchObject(notEligible(Ineligibility_Code.FINAL_SALE));
    await shop.setPolicy({ countries: ['DE'], window: { days: 1 } });
    const customer = { address: { countryCode: 'gb' } };
    await expect(submitStated({ customer })).rejects.toMatchObject(
      notEligible(Ineligibility_Code.COUNTRY_NOT_SERVED),
    );
    expect((await submitStated()).return).toMatchObject({ totals: { refund: '19.00' } });
  });

  test('gets a fee, and refunds all of its lines otherwise', async () => {
    await shop.setPolicy({ fees: [{ fee: { case: 'percentage', value: '50' } }] });
    expect((await submitStated()).return).toMatchObject({
      totals: { refund: '9.50', handlingFee: '9.50' },
      lineItems: [{ amounts: { refundItem: '18.00', refundTax: '1.00' } }],
    });
  });

  test('is rejected where the platform looks orders up, so that nobody states its prices', async () => {
    const request = stated({ statesOrder: true });
    const failed = submitReturn(submitDeps(db.pool, shop.platform()), request);
    await expect(failed).rejects.toMatchObject(invalid('order'));
    const { lookUp: _, ...withoutLookUp } = shop.platform();
    await submitReturn(submitDeps(db.pool, withoutLookUp), request);
    const repeat = await submitReturn(submitDeps(db.pool, shop.platform()), request);
    expect(repeat.repeated).toBe(true);
  });

  test('is refused for units that other returns have', async () => {
    await submitStated();
    await submitStated();
    await expect(submitStated()).rejects.toMatchObject(
      notEligible(Ineligibility_Code.IN_OPEN_RETURN),
    );
  });
});

test('a redaction deletes the comments of the shopper', async () => {
  const comment = 'Ring my neighbour Bob';
  await shop.submit({ lines: [{ providerLineItemId: 9001n, quantity: 1, comment }] });
  const request = { shopId, actor, email: 'ada@example.com' };
  await redactCustomer(submitDeps(db.pool), create(RedactCustomerRequestSchema, request));
  const { rows } = await db.pool.query('select kind from timeline where shop_id = $1 order by id', [
    shopId,
  ]);
  expect(rows).toEqual([{ kind: 'return.submitted' }, { kind: 'customer.redacted' }]);
});

test('the submitter is stored with the return', async () => {
  const { return: made } = await shop.submit({
    submitter: { by: { case: 'storefrontKey', value: true } },
    actor: create(ActorSchema, { kind: Actor_Kind.API_KEY, id: 'k', name: 'k' }),
  });
  expect(made.submitter?.by).toEqual({ case: 'storefrontKey', value: true });
});
