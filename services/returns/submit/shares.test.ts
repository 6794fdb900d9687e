import { mkdtempSync, rmSync } from 'node:fs';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { create } from '@bufbuild/protobuf';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { createEndpoint } from '../../../deploy/local/commerce/endpoint.ts';
import { type Ledger, openLedger } from '../../../deploy/local/commerce/ledger.ts';
import { Outcome, type Return, ReturnState } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { CancelReturnRequestSchema } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { returnRequest, submission } from '../../../test/kit/builders.ts';
import { type ShopifyBench, startShopifyBench } from '../../../test/kit/commerce/shopify/bench.ts';
import { SHOP_CURRENCY, type ShopOrder } from '../../../test/kit/commerce/shopify/shop.ts';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import {
  actor,
  newShop,
  reload,
  requestProcessing,
  runDeps,
  runDue,
  submitDeps,
} from '../../../test/kit/services/processing.ts';
import { createHttpCommerce } from '../../commerce/http/adapter.ts';
import { type CommerceClient, createCommerceClient } from '../../commerce/http/client.ts';
import type { AnsweredOrder } from '../../commerce/http/order.ts';
import type { CommerceProvider } from '../../commerce/provider.ts';
import { newSecret, signingKeyOf } from '../../platform/outbound/signature.ts';
import { type Both, formatAmount, inBoth, minorOf } from '../../platform/values/money.ts';
import { cancelReturn } from '../review/cancel.ts';
import { submitReturn } from './submit.ts';

// Any order, split into any returns, refunds exactly what was paid for it.

type Fate = 'closed' | 'open' | 'cancelled';

/** Minor units that were paid for a line, the tax in them, and the discount. */
const amounts = fc
  .record({
    total: fc.bigInt(0n, 100_000n),
    tax: fc.bigInt(0n, 20_000n),
    discount: fc.bigInt(0n, 9_999n),
  })
  .map(({ total, tax, discount }) => ({ total, discount, tax: tax < total ? tax : total }));
const lineOf = (isSame: boolean) =>
  fc.record({
    quantity: fc.integer({ min: 1, max: 7 }),
    amounts: isSame
      ? amounts.map((shop) => ({ shop, presentment: shop }))
      : fc.record({ shop: amounts, presentment: amounts }),
  });
const orderIn = (shop: fc.Arbitrary<string>, presentment: fc.Arbitrary<string>) =>
  fc.record({ shop, presentment }).chain((currencies) =>
    fc.record({
      currencies: fc.constant(currencies),
      /** Whether the shop shows prices with tax. */
      taxIncluded: fc.boolean(),
      /** Whether the endpoint answers what is left of the lines. */
      saysLeft: fc.boolean(),
      lines: fc.array(lineOf(currencies.shop === currencies.presentment), {
        minLength: 1,
        maxLength: 3,
      }),
      /** For each return, how many units of each line it wants, and what becomes of it. */
      returns: fc.array(
        fc.record({
          units: fc.array(fc.nat(3), { minLength: 3, maxLength: 3 }),
          fate: fc.constantFrom<Fate>('closed', 'open', 'cancelled'),
        }),
        { maxLength: 5 },
      ),
    }),
  );
type AnOrder = ReturnType<typeof orderIn> extends fc.Arbitrary<infer T> ? T : never;

/** A platform on which the order is bought and refunded. */
interface Platform {
  readonly commerce: CommerceProvider;
  /** Places an order with this id and the name `#<id>`. Its lines have the ids `<id>0`, `<id>1` and so on. */
  readonly place: (id: number, order: AnOrder) => void;
  /** Amounts that were refunded for an order, in its presentment currency. */
  readonly refunds: (id: number) => readonly string[];
}

/** The order as a merchant's endpoint answers it. */
function answered(
  id: number,
  { currencies, taxIncluded, saysLeft, lines }: AnOrder,
): AnsweredOrder {
  return {
    id,
    name: `#${id}`,
    currency: currencies.shop,
    presentment_currency: currencies.presentment,
    lines: lines.map(({ quantity, amounts: of }, n) => {
      const both = (read: (side: keyof Both<string>) => bigint) =>
        inBoth((side) => formatAmount(read(side), currencies[side]));
      return {
        line_item_id: id * 10 + n,
        title: `Line ${n}`,
        quantity,
        returnable: quantity,
        ...(saysLeft && { left: { units: quantity, total: both((side) => of[side].total) } }),
        paid: {
          total: both((side) => of[side].total),
          discount: both((side) => of[side].discount),
          tax: both((side) => of[side].tax),
          gross: both((side) => grossOf(of[side], taxIncluded)),
        },
      };
    }),
  };
}

/** The price before discounts, in a shop that shows prices with tax or without. */
function grossOf(
  { total, discount, tax }: AnOrder['lines'][number]['amounts']['shop'],
  taxIncluded: boolean,
): bigint {
  return total + discount - (taxIncluded ? 0n : tax);
}

/** The order as Shopify has it: the price of a line is that of one unit, times the units. */
function atShopify(id: number, { currencies, taxIncluded, lines }: AnOrder): ShopOrder {
  const total = lines.reduce((sum, line) => sum + line.amounts.presentment.total, 0n);
  return {
    id: BigInt(id),
    name: `#${id}`,
    currency: currencies.presentment,
    paid: formatAmount(total, currencies.presentment),
    customerId: undefined,
    taxesIncluded: taxIncluded,
    lines: lines.map(({ quantity, amounts: of }, n) => {
      const text = (read: (side: keyof Both<string>) => bigint) =>
        inBoth((side) => formatAmount(read(side), currencies[side]));
      const unit = (side: keyof Both<string>) => {
        const gross = grossOf(of[side], taxIncluded);
        return (gross + BigInt(quantity) - 1n) / BigInt(quantity);
      };
      const more = (side: keyof Both<string>) =>
        unit(side) * BigInt(quantity) - grossOf(of[side], taxIncluded);
      const price = text(unit);
      return {
        id: BigInt(id * 10 + n),
        sku: `SKU-${n}`,
        quantity,
        price: price.presentment,
        shopPrice: price.shop,
        discounts: [text((side) => of[side].discount), text(more)],
        taxes: [text((side) => of[side].tax)],
      };
    }),
  };
}

let db: TestDatabase;
let folder: string;
let ledger: Ledger;
let server: Server;
let client: CommerceClient;
let endpoint: Platform;
let shopify: ShopifyBench;
let orders = 0;
beforeAll(async () => {
  db = await createTestDatabase('returns');
  folder = mkdtempSync(join(tmpdir(), 'rms-shares-'));
  ledger = openLedger(join(folder, 'ledger.jsonl'));
  const secret = newSecret();
  const placed: AnsweredOrder[] = [];
  server = createEndpoint({ secrets: [secret], ledger, orders: placed }).listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  client = createCommerceClient({
    policy: { allowedOrigins: ['http://127.0.0.1:*'], stackPorts: () => [] },
  });
  endpoint = {
    commerce: createHttpCommerce({ client, url, keys: [signingKeyOf(secret)], sandbox: false }),
    place: (id, order) => void placed.push(answered(id, order)),
    refunds: (id) =>
      ledger
        .all()
        .filter(({ data }) => (data as { order: { id: number } }).order.id === id)
        .map(({ amount }) => amount ?? ''),
  };
  shopify = await startShopifyBench();
});
afterAll(async () => {
  await shopify.stop();
  await client.close();
  server.closeAllConnections();
  await server.close();
  await ledger.close();
  rmSync(folder, { recursive: true });
  await db.drop();
});

/** Refunds all of an order, split into its returns, the last of which has the rest. */
async function refundAll(order: AnOrder, { commerce, place, refunds }: Platform): Promise<void> {
  const id = ++orders;
  place(id, order);
  const shopId = await newShop(db.pool, { currency: order.currencies.shop });
  const deps = submitDeps(db.pool, commerce);
  const left = order.lines.map(({ quantity }) => quantity);
  const paid = inBoth((side) =>
    order.lines.reduce((sum, line) => sum + line.amounts[side].total, 0n),
  );
  const made: Return[] = [];

  const submit = async (units: readonly number[], fate: Fate) => {
    const lines = units.flatMap((quantity, n) =>
      quantity > 0 ? [{ providerLineItemId: BigInt(id * 10 + n), quantity }] : [],
    );
    const byName = { order: { name: `#${id}` }, currency: '', outcome: Outcome.REFUND, lines };
    const submitted = await submitReturn(deps, submission(returnRequest(shopId, byName)));
    const { id: returnId } = submitted.return;
    if (fate === 'cancelled') {
      const cancel = create(CancelReturnRequestSchema, { shopId, actor, returnId });
      await cancelReturn(deps.store, cancel);
      return;
    }
    if (fate === 'closed') await process(submitted.return);
    made.push(submitted.return);
    for (const [n, count] of units.entries()) left[n] = (left[n] ?? 0) - count;
  };
  const process = async (one: Return) => {
    await requestProcessing(db.pool, one);
    await runDue(runDeps(db.pool, commerce));
    expect((await reload(db.pool, one)).state).toBe(ReturnState.CLOSED);
  };

  for (const { units, fate } of order.returns) {
    const wanted = left.map((most, n) => Math.min(most, units[n] ?? 0));
    if (wanted.some((count) => count > 0)) await submit(wanted, fate);
  }
  if (left.some((count) => count > 0)) await submit(left, 'closed');
  for (const one of made) {
    if ((await reload(db.pool, one)).state !== ReturnState.CLOSED) await process(one);
  }
  const refunded = inBoth((side) =>
    made.reduce((sum, one) => {
      const totals = side === 'shop' ? one.totals : one.presentmentTotals;
      return sum + minorOf(totals?.refund ?? '', order.currencies[side]);
    }, 0n),
  );
  expect(refunded).toEqual(paid);
  const there = refunds(id).map((amount) => minorOf(amount, order.currencies.presentment));
  expect(there.reduce((sum, minor) => sum + minor, 0n)).toBe(paid.presentment);
}

// With 0, 2, 3 and 4 decimals.
const anyCurrency = fc.constantFrom('JPY', 'USD', 'KWD', 'CLF');

test('the refunds of an order add up to what was paid, however it is split into returns', async () => {
  const property = fc.asyncProperty(orderIn(anyCurrency, anyCurrency), (order) =>
    refundAll(order, endpoint),
  );
  await fc.assert(property, { numRuns: 25 });
});

test('the refunds of an order at Shopify add up to what was paid, too', async () => {
  const presentment = fc.constantFrom('JPY', 'GBP', 'USD', 'KWD');
  const platform: Platform = {
    commerce: shopify.commerce(),
    place: (id, order) => void shopify.shop.orders.set(BigInt(id), atShopify(id, order)),
    refunds: (id) =>
      shopify.shop.refunds
        .filter(({ orderId }) => orderId === BigInt(id))
        .map(({ amount }) => amount),
  };
  const property = fc.asyncProperty(orderIn(fc.constant(SHOP_CURRENCY), presentment), (order) =>
    refundAll(order, platform),
  );
  await fc.assert(property, { numRuns: 25 });
});
