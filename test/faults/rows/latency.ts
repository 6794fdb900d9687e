import type { Due } from '../ledger/balance.ts';
import { submitOnce } from '../ledger/submit-once.ts';
import { percentile, type Row, type RowContext, type RowResult } from '../row.ts';
import { portsOf } from '../system/sockets.ts';
import { type Trial, withTrial } from './trial.ts';

const SHOPS = 3;
/** Number of endpoints with consecutive ids, so many that each replica owns shards of some. */
const ENDPOINTS = 20;
const WINDOWS = { short: 3, full: 15 };
/** A window passes when its median is below the limit. Two of three windows must pass. Milliseconds. */
const LIMIT_MS = 500;
const SHARE_OF_WINDOWS = 2 / 3;
const QUIET_MS = 60_000;

/**
 * With two replicas of webhooks, one fans an event out and must notify the other, which owns some of the endpoints.
 * Without the notification the other finds the deliveries seconds later. The promise is a duration, so this row asserts
 * one, as a median over many deliveries.
 */
export const latencyRow: Row = {
  name: 'replica-latency',
  fault: 'none: an event is matched by one replica, and sent by both',
  mustHold:
    'lost 0; duplicates 0; median of fresh deliveries by the slower replica < 500 ms in two of three windows',
  budgetMs: { short: 90_000, full: 180_000 },
  run: (context) =>
    withTrial(context, { subscriptions: { 'return.created': ENDPOINTS }, shops: SHOPS }, (trial) =>
      measure(context, trial),
    ),
};

async function measure(context: RowContext, trial: Trial): Promise<RowResult> {
  const windows = WINDOWS[context.full ? 'full' : 'short'];
  const medians: number[] = [];
  // The first window opens connections and fills caches. It does not count.
  for (let nth = 0; nth <= windows; nth += 1) {
    const sent = await submitInEach(context, trial, nth);
    if (nth > 0) medians.push(await medianOf(context, sent));
  }
  const limit = LIMIT_MS * context.slack;
  const good = medians.filter((ms) => ms < limit).length;
  if (good < windows * SHARE_OF_WINDOWS) {
    trial.doubts.push(`only ${good} of ${windows} windows were below ${limit.toFixed(0)} ms`);
  }
  return trial.finish({
    trials: windows,
    inFlight: windows * SHOPS * ENDPOINTS,
    quietMs: QUIET_MS,
    figures: [`by the slower replica ${percentile(medians, 0.5).toFixed(0)} ms (median)`],
  });
}

/** Submits one return in each shop concurrently. Returns its deliveries when all have arrived. */
async function submitInEach({ system }: RowContext, trial: Trial, nth: number): Promise<Due[]> {
  const before = new Set(trial.ledger.all());
  await Promise.all(
    trial.shops.map((shop) => submitOnce(system, shop, { withinMs: QUIET_MS, nth })),
  );
  await trial.ledger.untilQuiet(QUIET_MS);
  return trial.ledger.all().filter((due) => !before.has(due));
}

/** Takes for each event the median of the slower replica, and returns the median of those. Milliseconds. */
async function medianOf({ system }: RowContext, sent: readonly Due[]): Promise<number> {
  const members = system.members('webhooks');
  const ports = await Promise.all(members.map((one) => portsOf(one.process.pid())));
  const isFrom = (own: ReadonlySet<number>, { eventId, path }: Due): boolean =>
    system.sink.arrivals.at(path).some((one) => one.eventId === eventId && own.has(one.fromPort));
  const slower = [...Map.groupBy(sent, ({ eventId }) => eventId).values()].map((ofEvent) => {
    const waits = ports.map((own) => ofEvent.filter((due) => isFrom(own, due)).map(waitOf));
    const medians = waits.map((ofReplica) => percentile(ofReplica, 0.5));
    // A replica without deliveries, or with closed connections, has no value.
    return medians.some(Number.isNaN) ? [] : [Math.max(...medians)];
  });
  return percentile(slower.flat(), 0.5);
}

function waitOf({ at, deliveredAt = Number.POSITIVE_INFINITY }: Due): number {
  return deliveredAt - at;
}
