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
import { Outcome, ReturnState } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { CancelReturnRequestSchema } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { returnRequest, submission } from '../../../test/kit/builders.ts';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import {
  actor,
  destinations,
  newShop,
  onlyProvider,
  reload,
  requestProcessing,
  runDeps,
  runDue,
} from '../../../test/kit/services/processing.ts';
import { changeDeps } from '../../../test/kit/services/return-stores.ts';
import { type Both, formatAmount, inBoth, minorOf } from '../../platform/money.ts';
import { newSecret, signingKeyOf } from '../../platform/outbound/signature.ts';
import { cancelReturn } from '../cancel.ts';
import { createHttpCommerce } from '../commerce/http/adapter.ts';
import { type CommerceClient, createCommerceClient } from '../commerce/http/client.ts';
import type { AnsweredOrder } from '../commerce/http/order.ts';
import { submitReturn } from './submit.ts';

// Any order, split into any returns, refunds exactly what was paid for it.

/** With 0, 2, 3 and 4 decimals. */
const currency = fc.constantFrom('JPY', 'USD', 'KWD', 'CLF');
/** Minor units that were paid for a line, what of it is tax, and the discount. */
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
const anOrder = fc.record({ shop: currency, presentment: currency }).chain((currencies) =>
  fc.record({
    currencies: fc.constant(currencies),
    /** Whether the shop shows prices with tax. */
    taxIncluded: fc.boolean(),
    lines: fc.array(lineOf(currencies.shop === currencies.presentment), {
      minLength: 1,
      maxLength: 3,
    }),
    /** For each return, how many units of each line it wants, and whether it is cancelled. */
    returns: fc.array(
      fc.record({
        units: fc.array(fc.nat(3), { minLength: 3, maxLength: 3 }),
        isCancelled: fc.boolean(),
      }),
      { maxLength: 5 },
    ),
  }),
);
type AnOrder = typeof anOrder extends fc.Arbitrary<infer T> ? T : never;

/** The order as a merchant's platform answers it. */
function answered(id: number, { currencies, taxIncluded, lines }: AnOrder): AnsweredOrder {
  const both = (read: (side: keyof Both<string>) => bigint) =>
    inBoth((side) => formatAmount(read(side), currencies[side]));
  return {
    id,
    name: `#${id}`,
    currency: currencies.shop,
    presentment_currency: currencies.presentment,
    lines: lines.map(({ quantity, amounts: of }, n) => ({
      line_item_id: id * 10 + n,
      title: `Line ${n}`,
      quantity,
      returnable: quantity,
      paid: {
        total: both((side) => of[side].total),
        discount: both((side) => of[side].discount),
        tax: both((side) => of[side].tax),
        gross: both((side) => {
          const { total, discount, tax } = of[side];
          return total + discount - (taxIncluded ? 0n : tax);
        }),
      },
    })),
  };
}

const orders: AnsweredOrder[] = [];
let db: TestDatabase;
let folder: string;
let ledger: Ledger;
let server: Server;
let client: CommerceClient;
let url: string;
const secret = newSecret();
beforeAll(async () => {
  db = await createTestDatabase('returns');
  folder = mkdtempSync(join(tmpdir(), 'rms-shares-'));
  ledger = openLedger(join(folder, 'ledger.jsonl'));
  server = createEndpoint({ secrets: [secret], ledger, orders }).listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  client = createCommerceClient({
    policy: { allowedOrigins: ['http://127.0.0.1:*'], stackPorts: () => [] },
  });
});
afterAll(async () => {
  await client.close();
  server.closeAllConnections();
  server.close();
  ledger.close();
  rmSync(folder, { recursive: true });
  await db.drop();
});

/** Refunds all of an order, split into its returns, the last of which has the rest. */
async function refundAll(order: AnOrder): Promise<void> {
  const id = orders.length + 1;
  orders.push(answered(id, order));
  const shopId = await newShop(db.pool, { currency: order.currencies.shop });
  const commerce = createHttpCommerce({
    client,
    url,
    keys: [signingKeyOf(secret)],
    sandbox: false,
  });
  const deps = { ...changeDeps(db.pool), destinations, providers: onlyProvider(commerce) };
  const left = order.lines.map(({ quantity }) => quantity);
  const refunded = { shop: 0n, presentment: 0n };
  const paid = inBoth((side) =>
    order.lines.reduce((sum, line) => sum + line.amounts[side].total, 0n),
  );

  const refund = async (units: readonly number[], isCancelled: boolean) => {
    const lines = units.flatMap((quantity, n) =>
      quantity > 0 ? [{ providerLineItemId: BigInt(id * 10 + n), quantity }] : [],
    );
    const byName = { order: { name: `#${id}` }, currency: '', outcome: Outcome.REFUND, lines };
    const request = submission(returnRequest(shopId, byName));
    const { return: made } = await submitReturn(deps, request);
    if (isCancelled) {
      await cancelReturn(
        deps.store,
        create(CancelReturnRequestSchema, { shopId, actor, returnId: made.id }),
      );
      return;
    }
    await requestProcessing(db.pool, made);
    await runDue(runDeps(db.pool, commerce));
    expect((await reload(db.pool, made)).state).toBe(ReturnState.CLOSED);
    refunded.shop += minorOf(made.totals?.refund ?? '', made.currency);
    refunded.presentment += minorOf(made.presentmentTotals?.refund ?? '', made.presentmentCurrency);
    expect(refunded.shop <= paid.shop && refunded.presentment <= paid.presentment).toBe(true);
    for (const [n, count] of units.entries()) left[n] = (left[n] ?? 0) - count;
  };

  for (const { units, isCancelled } of order.returns) {
    const wanted = left.map((most, n) => Math.min(most, units[n] ?? 0));
    if (wanted.some((count) => count > 0)) await refund(wanted, isCancelled);
  }
  if (left.some((count) => count > 0)) await refund(left, false);
  expect(refunded).toEqual(paid);
  const moved = ledger.all().filter((one) => one.shop_id === Number(shopId));
  const atPlatform = moved.map(({ amount }) => minorOf(amount ?? '', order.currencies.presentment));
  expect(atPlatform.reduce((sum, minor) => sum + minor, 0n)).toBe(paid.presentment);
}

test('the refunds of an order add up to what was paid, however it is split into returns', async () => {
  await fc.assert(fc.asyncProperty(anOrder, refundAll), {
    numRuns: 25,
    interruptAfterTimeLimit: 240_000,
  });
}, 300_000);
