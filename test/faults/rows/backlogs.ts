import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { LOCAL_ACTOR } from '../../../deploy/local/clients.ts';
import { freePort } from '../../../deploy/local/free-ports.ts';
import { SubscriptionStatus } from '../../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { addBacklog } from '../../bench/backlog.ts';
import { resetStatements, statementsSince } from '../../bench/statements.ts';
import { inBatches } from '../in-batches.ts';
import { repeatCall } from '../ledger/repeat-call.ts';
import { openShop, type TrialShop } from '../ledger/shop.ts';
import { submitOnce } from '../ledger/submit-once.ts';
import { comparedWait, percentile, type Row, type RowContext, type RowResult } from '../row.ts';
import { nowMs, waitFor } from '../wait.ts';
import { sampled } from './sampling.ts';
import { type Trial, withTrial } from './trial.ts';
import { addWaitingDeliveries, removeWaitingDeliveries } from './waiting-deliveries.ts';

const SUBSCRIPTIONS = { 'return.created': 5 };
const PER_SECOND = 20;
const ONLY_SUBMIT = { submit: 1, label: 0, process: 0 };
const SLICE_MS = { short: 2_000, full: 15_000 };
const QUIET_MS = 120_000;
const MUST_HOLD =
  'buffers read per claim ≤ 1.3× of a small backlog; p99 of the others (median in the short form) ≤ 2×; lost 0';
const MAX = { buffers: 1.3, wait: 2 };
/** Shorter waits count as this long in a ratio, because they are noise. Milliseconds. */
const MIN_WAIT_MS = 50;

/** The cost of a slice, and the delivery times in it. */
interface Slice {
  /** Pages that the claiming statements read per claimed delivery. */
  readonly buffersPerClaim: number;
  /** A percentile of the delivery times, see {@link comparedWait}. Milliseconds. */
  readonly wait: number;
}

/** Publishes for the healthy shop, and measures the claims and delivery times of that period. */
async function measure(context: RowContext, trial: Trial, admin: pg.Client): Promise<Slice> {
  // Autovacuum does this every minute. Without it a later slice would pay for the rows of earlier slices.
  await admin.query('vacuum analyze');
  await resetStatements(admin);
  const from = nowMs();
  const publisher = trial.publish({ perSecond: PER_SECOND, mix: ONLY_SUBMIT });
  await sleep(context.full ? SLICE_MS.full : SLICE_MS.short);
  await publisher.stop();
  const to = nowMs();
  await trial.ledger.untilQuiet(QUIET_MS);
  const statements = (await statementsSince(admin)).filter(({ text }) => isClaim(text));
  const claimed = statements
    .filter(({ text }) => text.includes('fresh_from'))
    .reduce((sum, { rows }) => sum + rows, 0);
  const buffers = statements.reduce((sum, one) => sum + one.buffers, 0);
  for (const { text, calls, rows, buffers: read } of statements) {
    const name = text.trim().replaceAll(/\s+/g, ' ').slice(0, 40);
    context.say(`  ${calls} × ${name}…: ${rows} rows, ${(read / calls).toFixed(1)} buffers a call`);
  }
  const waits = trial.ledger
    .all()
    .filter(({ at }) => at >= from && at <= to)
    .map(({ at, deliveredAt }) => (deliveredAt ?? Number.POSITIVE_INFINITY) - at);
  const { share, name } = comparedWait(context.full);
  const wait = percentile(waits, share);
  context.say(`  ${waits.length} deliveries: ${name} ${wait.toFixed(0)} ms`);
  return { buffersPerClaim: buffers / Math.max(1, claimed), wait };
}

/** Whether a statement finds ready queues or reads their due deliveries. */
function isClaim(text: string): boolean {
  return text.includes('fresh_from') || (text.includes('ready_at') && /^\s*select/i.test(text));
}

interface Slices {
  readonly small: readonly Slice[];
  readonly large: readonly Slice[];
  /** Further shops. Their delivery times count, but not their claims. */
  readonly busy?: readonly Slice[];
}

/** Compares all slices so far. */
function compared(
  full: boolean,
  { small, large, busy = [] }: Slices,
): { readonly misses: string[]; readonly figures: string[] } {
  const mean = (slices: readonly Slice[], of: (one: Slice) => number) =>
    slices.reduce((sum, one) => sum + of(one), 0) / slices.length;
  const buffers = {
    small: mean(small, (one) => one.buffersPerClaim),
    large: mean(large, (one) => one.buffersPerClaim),
  };
  const { name } = comparedWait(full);
  const waits = {
    small: mean(small, (one) => one.wait),
    large: mean([...large, ...busy], (one) => one.wait),
  };
  const more = buffers.large / buffers.small;
  const wait = Math.max(MIN_WAIT_MS, waits.large) / Math.max(MIN_WAIT_MS, waits.small);
  const misses: string[] = [];
  if (!(more <= MAX.buffers)) misses.push(`buffers per claim × ${more.toFixed(2)}`);
  if (!(wait <= MAX.wait)) misses.push(`${name} of the others × ${wait.toFixed(2)}`);
  const figures = [
    `buffers per claim × ${more.toFixed(2)} (${buffers.small.toFixed(1)} → ${buffers.large.toFixed(1)})`,
    `${name} of the others × ${wait.toFixed(2)} (${waits.small.toFixed(0)} → ${waits.large.toFixed(0)} ms)`,
    `${small.length + large.length + busy.length} slices`,
  ];
  return { misses, figures };
}

async function withAdmin<T>(context: RowContext, work: (admin: pg.Client) => Promise<T>) {
  const connectionString = await context.system.database.adminUrl();
  const admin = new pg.Client({ connectionString });
  await admin.connect();
  try {
    return await work(admin);
  } finally {
    await admin.end();
  }
}

const DEAD = { short: 300, full: 10_000 };
/**
 * Number of failures of each delivery before the cost is measured. The next retry is half a minute or five minutes
 * later, so none is due during the measurement. Ten thousand deliveries need longer to fail.
 */
const FAILURES = { short: 2, full: 3 };
const PER_SHOP = 100;
/** Number of shops that are opened, or published for, concurrently. */
const PARALLEL_SHOPS = 3;
const MADE_MS = 300_000;

/** Endpoints that reject every connection, each with a waiting delivery. */
const deadEndpoints: Row = {
  name: 'dead-endpoints',
  fault: '10,000 dead endpoints (300 in the short form)',
  mustHold: MUST_HOLD,
  budgetMs: { short: 300_000, full: 900_000 },
  leavesMess: true,
  run: (context) =>
    withTrial(context, { subscriptions: SUBSCRIPTIONS }, (trial) =>
      withAdmin(context, async (admin) => {
        await addWaitingDeliveries(admin);
        try {
          return await surround(context, trial, admin);
        } finally {
          await removeWaitingDeliveries(admin);
        }
      }),
    ),
};

async function surround(context: RowContext, trial: Trial, admin: pg.Client): Promise<RowResult> {
  const { full, say } = context;
  await measure(context, trial, admin); // warms up
  const small = [await measure(context, trial, admin), await measure(context, trial, admin)];
  const count = full ? DEAD.full : DEAD.short;
  const dead = await openDead(context, count);
  say(`dead endpoints: ${count} are there`);
  await admin.query('analyze');
  await inBatches(dead, PARALLEL_SHOPS, (shop) =>
    submitOnce(context.system, shop, { withinMs: MADE_MS }),
  );
  // Creating 10,000 deliveries is a load itself. The measurement starts when all of them wait for a retry.
  await untilFailed(admin, dead, { count, times: 1 });
  const busy = [await measure(context, trial, admin)];
  // Claims of one row from each of many queues cost more in any case. So the effect on others is measured while all dead
  // endpoints wait for a later retry.
  const times = full ? FAILURES.full : FAILURES.short;
  const failed = await untilFailed(admin, dead, { count, times });
  say(`dead endpoints: ${failed} have failed ${times} times`);
  const slices = { small, large: [] as Slice[], busy };
  await sampled(trial, {
    async round() {
      // The first half of each further round runs without them: their subscriptions are inactive.
      if (slices.large.length > 0) {
        await inBatches(dead, PARALLEL_SHOPS, (shop) => activate(context, shop, false));
        for (let nth = 0; nth < 2; nth += 1) small.push(await measure(context, trial, admin));
        await inBatches(dead, PARALLEL_SHOPS, (shop) => activate(context, shop, true));
      }
      for (let nth = 0; nth < 2; nth += 1) slices.large.push(await measure(context, trial, admin));
    },
    misses: () => compared(full, slices).misses,
  });
  const figures = [...compared(full, slices).figures, `${failed} dead endpoints`];
  return trial.finish({ trials: 2, inFlight: failed, quietMs: QUIET_MS, figures });
}

async function openDead({ system }: RowContext, count: number): Promise<TrialShop[]> {
  const port = await freePort();
  const urlOf = (path: string) => `http://127.0.0.1:${port}${path}`;
  const open = () => openShop(system, { 'return.created': PER_SHOP }, { urlOf });
  return inBatches(Array.from({ length: Math.ceil(count / PER_SHOP) }), PARALLEL_SHOPS, open);
}

/** Waits until this many deliveries have failed this often, and returns their number. */
async function untilFailed(
  admin: pg.Client,
  shops: readonly TrialShop[],
  { count, times }: { count: number; times: number },
): Promise<number> {
  const ids = shops.map(({ id }) => id);
  const text = 'select count(*) from webhooks.queue where shop_id = any($1) and attempts >= $2';
  return waitFor(
    async () => {
      const { rows } = await admin.query<{ count: string }>(text, [ids, times]);
      const failed = Number(rows[0]?.count ?? 0);
      return failed >= count && failed;
    },
    { what: `every dead endpoint has failed ${times} times`, withinMs: MADE_MS, everyMs: 500 },
  );
}

const BACKLOG = { small: 1_000, short: 20_000, full: 1_000_000 };
/** Response time of the sink, so that the backlog stays. Milliseconds. */
const SLOW_MS = 400;

/** A long backlog of one endpoint that is older than all other deliveries. */
const deepBacklog: Row = {
  name: 'deep-backlog',
  fault: '10^6 rows (20,000 in the short form) of one endpoint ahead of the others',
  mustHold: MUST_HOLD,
  budgetMs: { short: 300_000, full: 900_000 },
  leavesMess: true,
  run: (context) =>
    withTrial(context, { subscriptions: SUBSCRIPTIONS }, (trial) =>
      withAdmin(context, async (admin) => deepen(context, trial, admin)),
    ),
};

async function deepen(context: RowContext, trial: Trial, admin: pg.Client): Promise<RowResult> {
  const { system, full, say } = context;
  const shops = {
    small: await openShop(system, { 'return.created': 1 }),
    large: await openShop(system, { 'return.created': 1 }),
  };
  for (const { paths } of Object.values(shops)) {
    system.sink.behave([...paths], { kind: 'accept', delayMs: SLOW_MS });
  }
  await system.sink.flush();
  const count = full ? BACKLOG.full : BACKLOG.short;
  await addBacklog(admin, [BigInt(shops.large.id)], count);
  await addBacklog(admin, [BigInt(shops.small.id)], BACKLOG.small);
  say(`deep backlog: ${count} rows of one endpoint`);
  const slices = { small: [] as Slice[], large: [] as Slice[] };
  const rounds = await sampled(trial, {
    async round() {
      // Slices alternate: one of the two shops is inactive, and its backlog is kept.
      for (const which of ['small', 'large', 'large', 'small'] as const) {
        await activate(context, shops.small, which === 'small');
        await activate(context, shops.large, which === 'large');
        await sleep(500);
        slices[which].push(await measure(context, trial, admin));
      }
    },
    misses: () => compared(full, slices).misses,
  });
  const figures = [...compared(full, slices).figures, `${count} rows`];
  return trial.finish({ trials: 4 * rounds, inFlight: count, quietMs: QUIET_MS, figures });
}

async function activate({ system }: RowContext, shop: TrialShop, on: boolean): Promise<void> {
  const status = on ? SubscriptionStatus.ACTIVE : SubscriptionStatus.INACTIVE;
  const common = { shopId: BigInt(shop.id), actor: LOCAL_ACTOR, topic: 'return', status };
  for (const { id: subscriptionId, trigger, url } of shop.subscriptions) {
    await repeatCall(system, 'switching a subscription', (options) =>
      system.services.webhooks.updateSubscription(
        { ...common, subscriptionId, trigger, url },
        options,
      ),
    );
  }
}

export const backlogRows: readonly Row[] = [deadEndpoints, deepBacklog];
