import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Client } from '@connectrpc/connect';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { parse } from 'csv-parse/sync';
import { z } from 'zod';
import { freePort } from '../../deploy/local/free-ports.ts';
import { CommerceService } from '../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import { RestockMode } from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import { type NodeProcess, ROOT, startNode, untilProcess } from '../../test/kit/process.ts';
import { type ReturnsBench, startReturnsBench } from '../../test/kit/services/returns-bench.ts';
import { actor, identity } from '../../test/kit/services/running-service.ts';
import { until } from '../../test/kit/until.ts';
import { createServiceClient } from '../platform/rpc/client.ts';

// The returns of a real shop, processed through the reference endpoint, which is killed three times.

const FILE = `${ROOT}deploy/local/demo/online-retail-returns.csv`;
const KILLS = 3;
/** How many returns are requested at a time: fewer than the connections of the service, so that none waits for one. */
const AT_A_TIME = 8;

const row = z.object({
  InvoiceNo: z.string(),
  StockCode: z.string(),
  Description: z.string(),
  Quantity: z.coerce.number(),
  UnitPrice: z.coerce.number(),
});

// The effects that the endpoint shows.
const refund = z.object({ kind: z.literal('refund'), key: z.string(), amount: z.string() });
const restock = z.object({
  kind: z.literal('restock'),
  key: z.string(),
  data: z.object({ lines: z.array(z.object({ quantity: z.number() })) }),
});

/** The rows by invoice: each is a return of one order. */
function realReturns(): [invoice: string, rows: z.infer<typeof row>[]][] {
  const rows = z.array(row).parse(parse(readFileSync(FILE), { columns: true }));
  return [...Map.groupBy(rows, ({ InvoiceNo }) => InvoiceNo)];
}

const cents = (text: string): bigint => BigInt(Math.round(Number(text) * 100));

let bench: ReturnsBench;
let channel: { client: Client<typeof CommerceService>; close(): void };
let endpoint: NodeProcess;
let folder: string;
let port: number;
let secret: string;
let shopId: bigint;

async function startEndpoint(): Promise<NodeProcess> {
  const started = startNode({
    name: 'endpoint',
    args: [
      'deploy/local/commerce/main.ts',
      ...['--port', String(port), '--ledger', join(folder, 'ledger.jsonl'), '--secret', secret],
    ],
  });
  await untilProcess(started, () => started.output().includes('listening'));
  return started;
}

beforeAll(async () => {
  bench = await startReturnsBench({ NODE_ENV: 'production' });
  channel = createServiceClient(CommerceService, { target: bench.target, identity });
  shopId = await bench.shop();
  const settings = { restockMode: RestockMode.PROVIDER };
  await bench.client.updateSettings({ shopId, actor, settings });
  port = await freePort();
  const connected = await channel.client.connect({
    shopId,
    actor,
    url: `http://127.0.0.1:${port}/`,
  });
  secret = connected.secret?.value ?? '';
  folder = mkdtempSync(join(tmpdir(), 'rms-real-'));
  endpoint = await startEndpoint();
});
afterAll(async () => {
  await endpoint?.kill();
  channel?.close();
  await bench?.stop();
  rmSync(folder, { recursive: true, force: true });
});

async function process([invoice, rows]: ReturnType<typeof realReturns>[number], nth: number) {
  const lines = rows.map((one, at) => ({
    providerLineItemId: BigInt(1_000_000 + nth * 1_000 + at),
    lineItemTitle: one.Description.trim() || one.StockCode,
    sku: one.StockCode,
    quantity: -one.Quantity,
    price: { shop: (-one.Quantity * one.UnitPrice).toFixed(2) },
  }));
  const order = { providerOrderId: BigInt(5_000 + nth), name: `#${invoice}` };
  const { id } = await bench.submit(shopId, { order, lines });
  const { result } = await bench.client.processReturn({ shopId, actor, returnId: id });
  expect(result.case).toBe('queued');
}

const unfinished = async (): Promise<number> => {
  const { rows } = await bench.db.pool.query<{ count: number }>(
    "select count(*)::int as count from returns where shop_id = $1 and state <> 'closed'",
    [shopId],
  );
  return rows[0]?.count ?? 0;
};

test('the ledgers of both sides are equal to the cent, and every unit is in stock once', async () => {
  const returns = realReturns();
  expect(returns).toHaveLength(530);
  const killAt = Array.from({ length: KILLS }, (_, n) =>
    Math.floor(((n + 1) * returns.length) / (KILLS + 1) / AT_A_TIME),
  );
  for (let first = 0; first < returns.length; first += AT_A_TIME) {
    const some = returns.slice(first, first + AT_A_TIME);
    const requested = Promise.all(some.map((one, at) => process(one, first + at)));
    if (killAt.includes(first / AT_A_TIME)) {
      await endpoint.kill();
      endpoint = await startEndpoint();
    }
    await requested;
  }
  await until(async (see) => see(await unfinished()) === 0, 240_000);

  const answer = await fetch(`http://127.0.0.1:${port}/effects`);
  const { effects } = z
    .object({ effects: z.array(z.discriminatedUnion('kind', [refund, restock])) })
    .parse(await answer.json());
  expect(new Set(effects.map(({ key }) => key)).size).toBe(effects.length);
  const amounts = effects.flatMap((one) => (one.kind === 'refund' ? [one.amount] : []));
  const units = effects.flatMap((one) => (one.kind === 'restock' ? one.data.lines : []));
  const returned = returns.flatMap(([, rows]) => rows.map((one) => -one.Quantity));
  const count = (all: readonly number[]) => all.reduce((one, other) => one + other, 0);
  expect(count(units.map(({ quantity }) => quantity))).toBe(count(returned));
  const refunds = await bench.db.pool.query<{ value: string }>(
    'select value from refunds where shop_id = $1',
    [shopId],
  );
  const total = (some: readonly string[]) => some.reduce((sum, one) => sum + cents(one), 0n);
  expect(total(amounts)).toBe(total(refunds.rows.map(({ value }) => value)));
  const expected = returns.flatMap(([, rows]) =>
    rows.map((one) => (-one.Quantity * one.UnitPrice).toFixed(2)),
  );
  expect(total(amounts)).toBe(total(expected));

  const day = (at: Date) => at.toISOString().slice(0, 10);
  for (const one of new Set([day(new Date(Date.now() - 3_600_000)), day(new Date())])) {
    const result = await channel.client.reconcile({ shopId, actor, day: one });
    expect(result).toMatchObject({ listed: true, differences: [], total: 0 });
  }
});
