import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import type { Server } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import type { Client } from '@connectrpc/connect';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { createEndpoint } from '../../deploy/local/commerce/endpoint.ts';
import { type Ledger, openLedger } from '../../deploy/local/commerce/ledger.ts';
import { sendEvent } from '../../deploy/local/commerce/send.ts';
import { freePort } from '../../deploy/local/free-ports.ts';
import { CommerceService } from '../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import { type Return, ReturnState } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import { createServiceClient } from '../../services/platform/rpc/client.ts';
import { line } from '../kit/builders.ts';
import { startTestGateway, type TestGateway } from '../kit/gateway/test-gateway.ts';
import { ROOT } from '../kit/process.ts';
import { firstLine, type ReturnsBench, startReturnsBench } from '../kit/services/returns-bench.ts';
import { actor, identity } from '../kit/services/running-service.ts';
import { until } from '../kit/until.ts';

// A merchant refunds a line at their own platform, which reports it. Gateway, returns service and endpoint are real.

let bench: ReturnsBench;
let under: TestGateway;
let channel: { client: Client<typeof CommerceService>; close(): void };
let endpoint: Server;
let ledger: Ledger;
let folder: string;
let shopId: bigint;
let secret: string;
beforeAll(async () => {
  bench = await startReturnsBench({ NODE_ENV: 'production' });
  under = await startTestGateway({ RETURNS_TARGET: bench.target });
  channel = createServiceClient(CommerceService, { target: bench.target, identity });
  shopId = await bench.shop();
  const port = await freePort();
  const url = `http://127.0.0.1:${port}/`;
  secret = (await channel.client.connect({ shopId, actor, url })).secret?.value ?? '';
  folder = mkdtempSync(join(tmpdir(), 'rms-events-'));
  ledger = openLedger(join(folder, 'ledger.jsonl'));
  endpoint = createEndpoint({ secrets: [secret], ledger }).listen(port, '127.0.0.1');
  await once(endpoint, 'listening');
});
afterAll(async () => {
  endpoint?.close();
  ledger?.close();
  channel?.close();
  await under?.stop();
  await bench?.stop();
  rmSync(folder, { recursive: true, force: true });
});

const address = () => `${under.gateway.baseUrl}/commerce/events/${shopId}`;
const send = (event: Parameters<typeof sendEvent>[0], id?: string) =>
  sendEvent(event, { to: address(), secret, ...(id !== undefined && { id }) });

/** A return of two units of a line, and the events about its order. */
async function twoUnits() {
  const of = await bench.submit(shopId, { lines: [{ ...line(), quantity: 2 }] });
  const [item] = of.lineItems;
  const order_id = Number(of.order?.providerOrderId);
  const line_item_id = Number(item?.providerLineItemId);
  const at = new Date().toISOString();
  const lines = [{ line_item_id, quantity: 2 }];
  const order = { id: order_id, name: '#1', updated_at: at, lines };
  const refund = {
    id: `R-${order_id}`,
    order_id,
    created_at: at,
    amount: '10.00',
    currency: 'GBP',
    lines: [{ line_item_id, quantity: 1, amount: '10.00' }],
  };
  const events = {
    order: { type: 'order.updated', data: { order } },
    refund: { type: 'refund.created', data: { refund } },
  } as const;
  return { of, events };
}

const process = ({ id: returnId }: Return) =>
  bench.client.processReturn({ shopId, actor, returnId });
const refundsOf = ({ id }: Return) => ledger.all().filter((one) => one.return_id === Number(id));

test('a unit that the merchant refunded is not refunded again; after an edit the other one is', async () => {
  const { of, events } = await twoUnits();
  await send(events.order);
  await send(events.refund, 'r-1');
  await send(events.refund, 'r-1');

  await process(of);
  await until(async () => (await bench.triggers(of)).includes('return.processing.failed'));
  expect((await bench.read(of)).state).toBe(ReturnState.OPEN);
  expect(refundsOf(of)).toEqual([]);
  const news = (await bench.timeline(of)).filter(({ kind }) => kind.startsWith('order.'));
  expect(news).toHaveLength(1);

  const expectedRevision = (await bench.read(of)).revision;
  const price = { shop: '10.00' };
  const changes = [{ lineItemId: firstLine(of), quantity: 1, price }];
  await bench.client.editReturn({ shopId, actor, returnId: of.id, expectedRevision, changes });
  await process(of);
  await until(async () => (await bench.read(of)).state === ReturnState.CLOSED);
  expect(refundsOf(of)).toMatchObject([{ kind: 'refund', amount: '10.00' }]);

  const day = new Date().toISOString().slice(0, 10);
  const books = await channel.client.reconcile({ shopId, actor, day });
  expect(books).toMatchObject({ listed: true, differences: [], total: 0 });
});

test('the command of the reference endpoint sends an event', async () => {
  const { of, events } = await twoUnits();
  const child = spawn(
    globalThis.process.execPath,
    ['deploy/local/commerce/send.ts', '--to', address()],
    { cwd: ROOT, env: { COMMERCE_SECRETS: secret }, stdio: ['pipe', 'pipe', 'inherit'] },
  );
  child.stdin.end(JSON.stringify(events.refund));
  expect(await text(child.stdout)).toBe('accepted\n');
  const kinds = (await bench.timeline(of)).map(({ kind }) => kind);
  expect(kinds).toContain('order.refunded_at_provider');
});
