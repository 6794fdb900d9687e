import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Command } from 'commander';
import { formatOf } from '../../../gateway/admin/import/format.ts';
import { readInvoices } from '../../../gateway/admin/import/rows.ts';
import { readStackFile } from '../stack-file.ts';
import { inParallel } from './in-parallel.ts';
import { WebhookLedger } from './ledger.ts';
import { type Details, Partner, subscribe, unsubscribe } from './partner.ts';
import { Durations } from './percentiles.ts';
import { startReceiver } from './receiver.ts';
import { printReport } from './report.ts';

/** Number of concurrent calls of the partner. */
const PARALLEL = 8;

/** Maximum items of one dispositions request (interface: Limits). */
const BATCH = 30;

/** Time limit for the last webhooks, after all returns are processed. Milliseconds. */
const LAST_WEBHOOK_MS = 180_000;

const CSV = fileURLToPath(new URL('./online-retail-returns.csv', import.meta.url));

const options = new Command('npm run demo:day --')
  .description("Plays a partner's day over the imported returns, against the running stack.")
  .option('--shop <id>', 'the shop they were imported into', '1')
  .option('--file <csv>', 'the file that was imported', CSV)
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

const partner = new Partner(stack.base_url, shop.api_keys.all);
const ledger = new WebhookLedger();
const untilWebhook = new Durations();
const processedAt = new Map<number, number>();
let secret: string | undefined;
const receiver = await startReceiver(
  () => secret,
  (received) => {
    const started = processedAt.get(received.payload.id ?? 0);
    if (ledger.add(received) && started) untilWebhook.add(performance.now() - started);
  },
);
const started = performance.now();
secret = (await subscribe(partner, receiver.url)).secret;

const returns: Details[] = [];
const missing: string[] = [];
await inParallel(await invoiceNumbers(options.file), PARALLEL, async (name) => {
  const found = await partner.details(`order_name=${encodeURIComponent(name)}`);
  const read = found && (await partner.details(`return_id=${found.id}`));
  if (read) returns.push(read);
  else missing.push(name);
});
const open = returns.filter(({ state }) => state === 'open');
await inspect(open.flatMap(({ line_items }) => line_items.map((line) => line.line_item_id)));
await inParallel(open, PARALLEL, processReturn);
await untilReceived(open);
const states = new Map<string, number>();
await inParallel(open, PARALLEL, async ({ id }) => {
  const state = (await partner.details(`return_id=${id}`))?.state ?? 'gone';
  states.set(state, (states.get(state) ?? 0) + 1);
});
await unsubscribe(partner, receiver.url);
await receiver.stop();

const lost = open.filter(({ id }) => !ledger.has(id)).length;
partner.durations.set('process until webhook', untilWebhook);
printReport({
  missing,
  already: returns.length - open.length,
  returns: open.length,
  closed: states.get('closed') ?? 0,
  webhooks: ledger.webhooks,
  lost,
  repeated: ledger.repeated,
  doubled: ledger.doubled,
  invalid: ledger.invalid,
  repeats: partner.repeats,
  seconds: (performance.now() - started) / 1000,
  durations: partner.durations,
});
const whole = lost + ledger.doubled + ledger.invalid + missing.length === 0;
process.exitCode = whole && states.get('closed') === open.length ? 0 : 1;

async function invoiceNumbers(file: string): Promise<Set<string>> {
  const numbers = new Set<string>();
  const format = await formatOf(file);
  for await (const { number } of readInvoices(file, format)) numbers.add(number);
  return numbers;
}

/** Records the disposition of every line, in batches of the maximum size. */
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
    const path = '/api/2026-10/dispositioning/assess';
    const { status, body } = await partner.call('inspect 30 lines', 'POST', path, { items });
    if (status !== 200) throw new Error(`inspect: ${status} ${JSON.stringify(body)}`);
  });
}

async function processReturn({ id }: Details): Promise<void> {
  processedAt.set(id, performance.now());
  const path = `/api/2026-10/warehouse/return/${id}/process`;
  const { body } = await partner.call('process a return', 'POST', path);
  if (body === true) return;
  // The response of an earlier attempt may have been lost; then the return is closed already.
  const state = (await partner.details(`return_id=${id}`))?.state;
  if (state !== 'closed') throw new Error(`process ${id}: ${JSON.stringify(body)}`);
}

async function untilReceived(processed: readonly Details[]): Promise<void> {
  const deadline = Date.now() + LAST_WEBHOOK_MS;
  while (Date.now() < deadline && processed.some(({ id }) => !ledger.has(id))) await sleep(50);
}
