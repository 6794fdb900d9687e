import { describeDelivery } from '../ledger/describe-delivery.ts';
import { type Fault, judge } from '../ledger/judge.ts';
import { type Ledger, openLedger } from '../ledger/ledger.ts';
import { type Publisher, type PublisherOptions, startPublisher } from '../ledger/publisher.ts';
import { untilRecorded } from '../ledger/recorded.ts';
import { openShop, type SubscriptionCounts, type TrialShop } from '../ledger/shop.ts';
import { type RowContext, type RowResult, someOf } from '../row.ts';
import type { System } from '../system/system.ts';
import { nowMs } from '../wait.ts';
import { isPassedOn } from './passed-on.ts';

/** A shop under load, its ledger, and the faults that it went through. */
export interface Trial {
  /** The first shop, and usually the only one. */
  readonly shop: TrialShop;
  readonly shops: readonly TrialShop[];
  /** Paths of all shops. */
  readonly paths: ReadonlySet<string>;
  readonly ledger: Ledger;
  readonly faults: Fault[];
  readonly problems: string[];
  readonly doubts: string[];
  /** Starts to change returns of the first shop, or of another one. */
  publish(o: Pick<PublisherOptions, 'perSecond' | 'mix'> & { shop?: TrialShop }): Publisher;
  /** Stops the publishers, waits until everything has arrived, and compares the ledger with the sink. */
  finish(o: Finish): Promise<RowResult>;
}

export interface Finish {
  readonly trials: number;
  /** Number of attempts, events or calls that the faults hit, over all trials. */
  readonly inFlight: number;
  readonly figures: readonly string[];
  /** Time limit for the last arrivals. Milliseconds. */
  readonly quietMs: number;
  /** Whether its faults make running processes lose their leases. The repeats of such processes are explained. */
  readonly passesOn?: boolean;
}

/** Subscriptions of an ordinary trial: two to the most frequent event, one to each other event. */
export const DEFAULT_SUBSCRIPTIONS: SubscriptionCounts = {
  'return.created': 2,
  'return.updated': 1,
  'return.closed': 1,
  'label.created': 1,
};

const MAX_DESCRIBED = 3;

/** Opens a new shop, runs `work` with it, and deletes its subscriptions. */
export async function withTrial(
  { system, random }: RowContext,
  o: {
    readonly subscriptions?: SubscriptionCounts;
    readonly shopId?: number;
    readonly shops?: number;
  },
  work: (trial: Trial) => Promise<RowResult>,
): Promise<RowResult> {
  const subscriptions = o.subscriptions ?? DEFAULT_SUBSCRIPTIONS;
  const openedAt = nowMs();
  const shop = await during('opening its shop', openShop(system, subscriptions, o));
  const others = Array.from({ length: (o.shops ?? 1) - 1 }, () => openShop(system, subscriptions));
  const shops = [shop, ...(await during('opening further shops', Promise.all(others)))];
  const paths = new Set(shops.flatMap((one) => [...one.paths]));
  const ledger = await openLedger(system, shops);
  const publishers: Publisher[] = [];
  const faults: Fault[] = [];
  const problems: string[] = [];
  const doubts: string[] = [];
  const trial: Trial = {
    shop,
    shops,
    paths,
    ledger,
    faults,
    problems,
    doubts,
    publish(options) {
      const stream = random.fork(`publisher ${publishers.length}`);
      const publisher = startPublisher({ system, shop, random: stream, ...options });
      publishers.push(publisher);
      return publisher;
    },
    finish: (end) =>
      finishTrial(
        system,
        { shops, paths, ledger, faults, problems, doubts, publishers, openedAt },
        end,
      ),
  };
  const closed = async (): Promise<string[]> => {
    await Promise.allSettled(publishers.map((one) => one.stop()));
    const ends = await Promise.allSettled(shops.map((one) => one.close()));
    return ends.flatMap((end) =>
      end.status === 'rejected' ? [`closing its shop: ${whyOf(end.reason)}`] : [],
    );
  };
  let result: RowResult;
  try {
    result = await work(trial);
  } catch (error) {
    // A failure of the trial matters more than a failure to close its shop.
    await closed();
    throw error;
  }
  return { ...result, problems: [...result.problems, ...(await closed())] };
}

type Finished = Pick<Trial, 'shops' | 'paths' | 'ledger' | 'faults' | 'problems' | 'doubts'> & {
  readonly publishers: readonly Publisher[];
  readonly openedAt: number;
};

async function finishTrial(
  system: System,
  { shops, paths, ledger, faults, problems, doubts, publishers, openedAt }: Finished,
  { quietMs, passesOn = false, ...rest }: Finish,
): Promise<RowResult> {
  await Promise.all(publishers.map((one) => one.stop()));
  const ids = shops.map(({ id }) => id);
  await ledger
    .untilQuiet(quietMs)
    .then(() => untilRecorded(system, ids, quietMs))
    .catch((error: Error) => problems.push(error.message));
  await system.sink.flush();
  const judged = judge(system.sink.arrivals, paths, faults);
  const werePassedOn = await isPassedOn(system, openedAt, judged.unexplained.length);
  const unexplained = werePassedOn && passesOn ? [] : judged.unexplained;
  const unrecorded = ledger.unrecorded(publishers);
  const lost = ledger.missing();
  const stuck = lost.slice(0, MAX_DESCRIBED).map((one) => describeDelivery(system, one));
  problems.push(
    ...(await Promise.all(stuck)),
    ...someOf(lost.map(({ eventId, path }) => `lost: event ${eventId} for ${path}`)),
    ...someOf(unrecorded.map((text) => `acknowledged but not stored: ${text}`)),
    ...someOf(ledger.extra(publishers)),
    ...someOf(judged.violations),
    ...someOf(await ledger.misfits()),
  );
  // The machine may have frozen a process, without a fault of the row.
  if (!werePassedOn) problems.push(...someOf(unexplained));
  else if (!passesOn) {
    doubts.push(`${unexplained.length} attempts were passed on: ${unexplained[0]}`);
  }
  return {
    ...rest,
    lost: lost.length + unrecorded.length,
    duplicates: judged.duplicates,
    unexplained: unexplained.length,
    problems,
    doubts,
    figures: [...rest.figures, `${ledger.all().length} deliveries`],
  };
}

/** Adds the phase of the trial to an error. */
function during<T>(phase: string, work: Promise<T>): Promise<T> {
  return work.catch((cause: unknown) => {
    throw new Error(`${phase}: ${whyOf(cause)}`, { cause });
  });
}

function whyOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause === undefined ? error.message : `${error.message}: ${whyOf(error.cause)}`;
}
