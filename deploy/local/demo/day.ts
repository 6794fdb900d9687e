import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { create } from '@bufbuild/protobuf';
import { Code, ConnectError } from '@connectrpc/connect';
import { Command } from 'commander';
import { type AdminContext, openAdminContext } from '../../../gateway/admin/admin-context.ts';
import {
  AutomaticProcessingSchema,
  AutomaticProcessing_Moment as Moment,
  type Policy,
  PolicySchema,
} from '../../../proto/gen/rms/returns/v1/policy_pb.ts';
import { LOCAL_ACTOR } from '../clients.ts';
import { readStackFile } from '../stack-file.ts';
import { printReport, WebhookLedger } from './day-report.ts';
import { inParallel } from './in-parallel.ts';
import { type DayOrder, readOrders } from './orders.ts';
import {
  type Details,
  Partner,
  type RestResponse,
  subscribe,
  UNAVAILABLE_MS,
  unsubscribe,
} from './partner.ts';
import { Durations } from './percentiles.ts';
import { startReceiver } from './receiver.ts';

/** Number of concurrent calls of each caller. */
const PARALLEL = 8;

/** Maximum items of one dispositions request (interface: Limits). */
const BATCH = 30;

/** Maximum orders of one call. */
const ORDERS_AT_A_TIME = 100;

/** Time limit for the last webhooks, after all goods have arrived. Milliseconds. */
const LAST_WEBHOOK_MS = 180_000;

const CSV = fileURLToPath(new URL('./online-retail-returns.csv', import.meta.url));
const API = '/api/2026-10';

const options = new Command('npm run demo:day --')
  .description(
    'Plays a day against the running stack: a storefront asks what of each order may come back and submits it, and a 3PL inspects what it expects and records its arrival, on which the policy refunds it.',
  )
  .option('--shop <id>', 'the shop', '1')
  .option('--file <csv>', 'the returns, in the form of an import', CSV)
  .option('--stack <file>', 'the stack file', '.local/stack.json')
  .parse()
  .opts<{ shop: string; file: string; stack: string }>();

process.once('uncaughtException', (error) => {
  process.stderr.write(`demo:day: ${error.message}\n`);
  process.exit(1);
});

const stack = await readStackFile(options.stack);
const shop = stack.shops.find(({ id }) => String(id) === options.shop);
if (!shop) {
  const ids = stack.shops.map(({ id }) => id).join(', ');
  throw new Error(`the stack has no shop ${options.shop}, but ${ids || 'none at all'}`);
}
const caller = { shopId: BigInt(shop.id), actor: LOCAL_ACTOR };
const orders = await readOrders(options.file, { ...caller, currency: shop.currency });
const started = performance.now();

const durations = new Map<string, Durations>();
const withScope = (scope: string) =>
  new Partner(stack.base_url, String(shop.api_keys[scope]), durations);
const storefront = withScope('returns:submit');
const warehouse = withScope('warehouse');
const app = withScope('developer_tools');

const ledger = new WebhookLedger();
const untilWebhook = new Durations();
const arrivedAt = new Map<number, number>();
let secret: string | undefined;
const receiver = await startReceiver(
  () => secret,
  (received) => {
    const arrived = arrivedAt.get(received.payload.id ?? 0);
    if (ledger.add(received) && arrived) untilWebhook.add(performance.now() - arrived);
  },
);
secret = (await subscribe(app, receiver.url)).secret;

/** Responses after which a call of a service is repeated. */
const REPEATED = [Code.Unavailable, Code.DeadlineExceeded, Code.ResourceExhausted];

interface EligibleLine {
  readonly provider_line_item_id: number;
  readonly returnable_quantity: number;
  readonly reasons: readonly unknown[];
}

interface ExpectedRow {
  readonly line_item_id: number;
  readonly expected_quantity: number;
}

interface ArrivedItem {
  readonly unexpected_quantity: number;
}

/** A submitted return, and whether this run made it. */
interface Submitted {
  readonly details: Details;
  readonly of: DayOrder;
  readonly isNew: boolean;
}
const submitted: Submitted[] = [];
/** What an answer should have said, and did not. */
const wrong: string[] = [];

const admin = await openAdminContext({}, options.stack);
const { endPolicy } = await prepareShop(orders);
try {
  await inParallel(orders, PARALLEL, submit);
} finally {
  // Each return keeps the policy that it was submitted under.
  await endPolicy();
  await admin.close();
}
const open = submitted.filter(({ details }) => details.state === 'open');
await requireExpected(open.filter(({ isNew }) => isNew));
await inspect(open.flatMap(({ details }) => details.line_items.map((line) => line.line_item_id)));
await inParallel(open, PARALLEL, receive);
await untilReceived(open);
const closed = await countRefunded(open);
await unsubscribe(app, receiver.url);
await receiver.stop();

const lost = open.filter(({ details }) => !ledger.has(details.id)).length;
durations.set('arrival until webhook', untilWebhook);
printReport({
  wrong,
  already: submitted.length - open.length,
  returns: open.length,
  closed,
  ledger,
  lost,
  repeats: storefront.repeats + warehouse.repeats + app.repeats,
  seconds: (performance.now() - started) / 1000,
  durations,
});
const whole = lost + ledger.doubled + ledger.invalid + wrong.length === 0;
process.exitCode = whole && closed === open.length ? 0 : 1;

/** Does what the shop does before the day: it gets the orders, and a policy that refunds what has arrived. */
async function prepareShop(all: readonly DayOrder[]): Promise<{ endPolicy(): Promise<unknown> }> {
  for (let at = 0; at < all.length; at += ORDERS_AT_A_TIME) {
    const page = all.slice(at, at + ORDERS_AT_A_TIME).map(({ order }) => JSON.stringify(order));
    await atService(({ commerce }) => commerce.recordSampleOrders({ ...caller, orders: page }));
  }
  const before = await atService(({ returns }) => returns.getPolicy(caller));
  const { policy = create(PolicySchema) } = before;
  const process = create(AutomaticProcessingSchema, { moment: Moment.ARRIVED });
  const { version } = await changePolicy({ ...policy, process }, before.version);
  return { endPolicy: () => changePolicy(policy, version) };
}

/** Safe to repeat. */
function changePolicy(policy: Policy, expectedVersion: bigint) {
  return atService(({ returns }) => returns.updatePolicy({ ...caller, policy, expectedVersion }));
}

/** Calls a service, and repeats the call while the stack is unavailable. */
async function atService<T>(work: (services: AdminContext['services']) => Promise<T>): Promise<T> {
  const deadline = Date.now() + UNAVAILABLE_MS;
  for (;;) {
    try {
      return await work(admin.services);
    } catch (error) {
      const isUnavailable = REPEATED.includes(ConnectError.from(error).code);
      if (!isUnavailable || Date.now() > deadline) throw error;
      await sleep(500);
    }
  }
}

/** The storefront: asks what of an order may come back, and submits all of it. */
async function submit(one: DayOrder): Promise<void> {
  const { name, lines } = one.order;
  const by = `order_name=${encodeURIComponent(name)}`;
  const asked = await storefront.call('ask what may come back', {
    method: 'GET',
    path: `${API}/orders/eligibility?${by}`,
  });
  const items = lines.map((line) => ({
    provider_line_item_id: line.line_item_id,
    quantity: line.quantity,
  }));
  const { status, body } = await storefront.call('submit a return', {
    method: 'POST',
    path: `${API}/returns`,
    body: { order_name: name, items },
    // A repeat gets the same return, in this run and in the next one.
    key: `demo-day:${name}`,
  });
  const details = body as Details;
  if (status !== 201 && status !== 200) {
    wrong.push(`submit ${name}: ${status} ${JSON.stringify(body)}`);
    return;
  }
  const isNew = status === 201;
  if (isNew) requireEligible(one, asked);
  if (isNew && details.refund !== one.total) {
    wrong.push(`${name}: the refund is ${details.refund}, not ${one.total}`);
  }
  if (details.state !== 'open' && details.state !== 'closed') {
    wrong.push(`${name}: the return is ${details.state}`);
  }
  submitted.push({ details, of: one, isNew });
}

/** An order that nobody has returned yet may come back whole. */
function requireEligible({ order }: DayOrder, { status, body }: RestResponse): void {
  const { lines = [] } = body as { lines?: readonly EligibleLine[] };
  const units = new Map(lines.map((line) => [line.provider_line_item_id, line]));
  const isWhole = order.lines.every(({ line_item_id, quantity }) => {
    const line = units.get(line_item_id);
    return line?.returnable_quantity === quantity && line.reasons.length === 0;
  });
  if (!isWhole) wrong.push(`eligibility of ${order.name}: ${status} ${JSON.stringify(body)}`);
}

/** The 3PL: each line of these returns is expected once, with all its units. */
async function requireExpected(returns: readonly Submitted[]): Promise<void> {
  const rows = await listExpected();
  for (const { details, of } of returns) {
    for (const line of details.line_items) {
      const found = rows.filter(({ line_item_id }) => line_item_id === line.line_item_id);
      const [row] = found;
      const units = unitsOf(of, line);
      if (found.length === 1 && row?.expected_quantity === units) continue;
      wrong.push(`expected of ${of.order.name}: ${JSON.stringify(found)}, not ${units} units once`);
    }
  }
}

async function listExpected(): Promise<readonly ExpectedRow[]> {
  const rows: ExpectedRow[] = [];
  let cursor: string | null = '';
  while (cursor !== null) {
    const path = `${API}/warehouse/expected?limit=100${cursor && `&cursor=${cursor}`}`;
    const { status, body } = await warehouse.call('list 100 expected', { method: 'GET', path });
    if (status !== 200) throw new Error(`expected: ${status} ${JSON.stringify(body)}`);
    const page = body as { expected: readonly ExpectedRow[]; next_cursor: string | null };
    rows.push(...page.expected);
    cursor = page.next_cursor;
  }
  return rows;
}

/** The 3PL: records the disposition of every line, in batches of the maximum size. */
async function inspect(lines: readonly number[]): Promise<void> {
  const batches = Array.from({ length: Math.ceil(lines.length / BATCH) }, (_, at) =>
    lines.slice(at * BATCH, (at + 1) * BATCH),
  );
  await inParallel(batches, PARALLEL, async (batch) => {
    const items = batch.map((line_item_id) => ({
      line_item_id,
      return_processor: 'warehouse@example.com',
      note: 'Unused, in its packing.',
      inspected_at: '2026-11-20T09:30:00+00:00',
    }));
    const path = `${API}/dispositioning/assess`;
    const { status, body } = await warehouse.call('inspect 30 lines', {
      method: 'POST',
      path,
      body: { items },
    });
    if (status !== 200) throw new Error(`inspect: ${status} ${JSON.stringify(body)}`);
  });
}

/** The 3PL: records that all goods of a return have arrived, on which the policy refunds it. */
async function receive({ details, of }: Submitted): Promise<void> {
  arrivedAt.set(details.id, performance.now());
  const items = details.line_items.map((line) => ({
    line_item_id: line.line_item_id,
    quantity: unitsOf(of, line),
  }));
  const { status, body } = await warehouse.call('record an arrival', {
    method: 'POST',
    path: `${API}/warehouse/arrivals`,
    body: { return_id: details.id, items },
    key: `demo-day:${details.id}`,
  });
  const arrived = (body as { items?: readonly ArrivedItem[] }).items ?? [];
  const isAll = arrived.length === items.length && arrived.every((one) => !one.unexpected_quantity);
  if ((status !== 201 && status !== 200) || !isAll) {
    wrong.push(`arrival of ${of.order.name}: ${status} ${JSON.stringify(body)}`);
  }
}

function unitsOf({ order }: DayOrder, line: Details['line_items'][number]): number {
  const id = line.provider_line_item_id;
  return order.lines.find(({ line_item_id }) => line_item_id === id)?.quantity ?? 0;
}

async function untilReceived(returns: readonly Submitted[]): Promise<void> {
  const deadline = Date.now() + LAST_WEBHOOK_MS;
  const isMissing = () => returns.some(({ details }) => !ledger.has(details.id));
  while (Date.now() < deadline && isMissing()) await sleep(50);
}

/** Counts the returns that are closed. Each must have been refunded once, by what its order cost. */
async function countRefunded(returns: readonly Submitted[]): Promise<number> {
  let count = 0;
  await inParallel(returns, PARALLEL, async ({ details: { id }, of }) => {
    const details = await storefront.details(`return_id=${id}`);
    if (details?.state === 'closed') count += 1;
    const amounts = details?.refunds.map(({ amount }) => amount) ?? [];
    if (amounts.join() !== (/[1-9]/.test(of.total) ? of.total : '')) {
      wrong.push(`refunds of ${of.order.name}: ${amounts.join() || 'none'}, not ${of.total}`);
    }
  });
  return count;
}
