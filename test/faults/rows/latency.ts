import type { Due } from '../ledger/balance.ts';
import { submitOnce } from '../ledger/submit-once.ts';
import { type Outcome, percentile, type Row, type RowContext } from '../row.ts';
import { portsOf } from '../system/sockets.ts';
import { type Trial, withTrial } from './trial.ts';

const SHOPS = 3;
/** Consecutive endpoints, enough that each replica holds the shards of some. */
const ENDPOINTS = 20;
const WINDOWS = { short: 3, full: 15 };
/** A window is good when its median is below the limit. Of three windows this many must be good. Milliseconds. */
const LIMIT_MS = 500;
const SHARE_OF_WINDOWS = 2 / 3;
const QUIET_MS = 60_000;

/**
 * Two replicas of webhooks: one matches an event, and the other, which holds some of its endpoints, must be notified.
 * Without the notification it finds the deliveries seconds later. So this row asserts a duration, as a median over many
 * deliveries, because it is the promise.
 */
export const latencyRow: Row = {
  name: 'replica-latency',
  fault: 'none: an event is matched by one replica, and sent by both',
  mustHold:
    'lost 0; duplicates 0; median of fresh deliveries by the slower replica < 500 ms in two of three windows',
  budgetMs: { short: 90_000, full: 180_000 },
  run: (context) =>
    withTrial(context, { wanted: { 'return.created': ENDPOINTS }, shops: SHOPS }, (trial) =>
      measure(context, trial),
    ),
};

async function measure(context: RowContext, trial: Trial): Promise<Outcome> {
  const windows = WINDOWS[context.full ? 'full' : 'short'];
  const medians: number[] = [];
  // Connections and plans are made in the first one, which does not count.
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

/** One return in each shop at the same time. Resolves to its deliveries, when all have arrived. */
async function submitInEach({ system }: RowContext, trial: Trial, nth: number): Promise<Due[]> {
  const before = new Set(trial.ledger.all());
  await Promise.all(
    trial.shops.map((shop) => submitOnce(system, shop, { withinMs: QUIET_MS, nth })),
  );
  await trial.ledger.untilQuiet(QUIET_MS);
  return trial.ledger.all().filter((due) => !before.has(due));
}

/** For each event the median by the replica that was slower; of these the median. Milliseconds. */
async function medianOf({ system }: RowContext, sent: readonly Due[]): Promise<number> {
  const members = system.members('webhooks');
  const ports = await Promise.all(members.map((one) => portsOf(one.process.pid())));
  const isFrom = (own: ReadonlySet<number>, { eventId, path }: Due): boolean =>
    system.sink.book.at(path).some((one) => one.eventId === eventId && own.has(one.fromPort));
  const slower = [...Map.groupBy(sent, ({ eventId }) => eventId).values()].map((ofEvent) => {
    const waits = ports.map((own) => ofEvent.filter((due) => isFrom(own, due)).map(waitOf));
    const medians = waits.map((ofReplica) => percentile(ofReplica, 0.5));
    // A replica without deliveries, or whose connections are gone, has no value.
    return medians.some(Number.isNaN) ? [] : [Math.max(...medians)];
  });
  return percentile(slower.flat(), 0.5);
}

function waitOf({ at, deliveredAt = Number.POSITIVE_INFINITY }: Due): number {
  return deliveredAt - at;
}
