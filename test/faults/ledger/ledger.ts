import { fromBinary } from '@bufbuild/protobuf';
import { EventSchema } from '../../../proto/gen/rms/events/v1/events_pb.ts';
import type { System } from '../system/system.ts';
import { nowMs, waitFor } from '../wait.ts';
import { createBalance, type Due } from './balance.ts';
import { differenceFrom } from './bodies.ts';
import { compareChanges } from './change-comparison.ts';
import type { Publisher } from './publisher.ts';
import type { TrialShop } from './shop.ts';

/** Compares the committed deliveries of the system with the requests that the sink received. */
export interface Ledger {
  /** Reads new stored events and new requests. */
  refresh(): Promise<void>;
  all(): readonly Due[];
  missing(): readonly Due[];
  /** Acknowledged changes without their event. */
  unrecorded(publishers: readonly Publisher[]): string[];
  /** Events of acknowledged returns without a change. */
  extra(publishers: readonly Publisher[]): string[];
  /** Requests whose body or headers do not match their event, as texts. */
  misfits(): Promise<string[]>;
  /**
   * Waits until every event is published and delivered, and no queue contains a delivery.
   *
   * @throws Error with the number of missing deliveries; its cause is the OverdueError.
   */
  untilQuiet(withinMs: number): Promise<void>;
}

interface EventRow {
  readonly position: bigint;
  readonly eventId: string;
  readonly trigger: string;
  readonly key: string;
  readonly shopId: bigint;
  readonly createdAt: Date;
}

/** Transactions commit out of order, so events of this period are read again. Milliseconds. */
const OVERLAP_MS = 15_000;

/** Must be opened before the first event of its shops. */
export async function openLedger(system: System, shops: readonly TrialShop[]): Promise<Ledger> {
  const { rows } = await system.pool.query<{ last: bigint | null }>(
    'select max(position) as last from returns.events',
  );
  const start = rows[0]?.last ?? 0n;
  const shopIds = shops.map(({ id }) => BigInt(id));
  const subscribed = shops.flatMap(({ id, subscriptions }) =>
    subscriptions.map((one) => ({ ...one, shopId: BigInt(id) })),
  );
  const changes = compareChanges();
  const balance = createBalance();
  const read = new Map<string, number>();
  let last = start;
  const positions = createPositions(start);

  async function readEvents(from: bigint): Promise<void> {
    const at = nowMs();
    const { rows: events } = await system.pool.query<EventRow>(EVENTS, [from, shopIds]);
    for (const event of events) {
      if (event.position > last) last = event.position;
      changes.add(event);
      for (const { shopId, trigger, path } of subscribed) {
        if (shopId !== event.shopId || trigger !== event.trigger) continue;
        balance.owe({ eventId: event.eventId, trigger, path, at: event.createdAt.getTime() });
      }
    }
    positions.add(at, last);
  }

  function readArrivals(): void {
    for (const { path } of subscribed) {
      const receipts = system.sink.arrivals.at(path);
      let next = read.get(path) ?? 0;
      // Requests without a response are checked again.
      for (let at = next; at < receipts.length; at += 1) {
        const receipt = receipts[at];
        if (!receipt) break;
        if (receipt.endedAt !== undefined && at === next) next += 1;
        if (!receipt.accepted || !receipt.answered || receipt.fault !== '') continue;
        balance.arrive(receipt.eventId, path, receipt.at);
      }
      read.set(path, next);
    }
  }

  const refresh = async (from: bigint): Promise<void> => {
    await readEvents(from);
    readArrivals();
  };
  return {
    refresh: () => refresh(positions.first()),
    all: () => balance.all(),
    missing: () => balance.missing(),
    unrecorded: (publishers) => changes.missing(publishers.flatMap((one) => one.acknowledged)),
    extra: (publishers) => changes.extra(publishers.flatMap((one) => one.acknowledged)),
    misfits: () => findMisfits(system, { subscribed, shopIds, start }),
    async untilQuiet(withinMs) {
      const isQuiet = async (): Promise<boolean> => {
        await refresh(positions.first());
        if (balance.missing().length > 0) return false;
        const { rows: left } = await system.pool.query<{ count: bigint }>(UNDONE, [shopIds]);
        if (left[0]?.count !== 0n) return false;
        // Reads all events again, so that it also finds events that were committed very late.
        await refresh(start);
        return balance.missing().length === 0;
      };
      const what = 'everything has arrived';
      await waitFor(isQuiet, { what, withinMs, everyMs: 100 }).catch((cause: unknown) => {
        throw new Error(`not ${what}: ${balance.missing().length} are missing`, { cause });
      });
    },
  };
}

/** Read positions over time. The first is the newest that is old enough to start from. */
function createPositions(start: bigint) {
  const marks = [{ at: nowMs(), last: start }];
  return {
    add: (at: number, last: bigint): void => void marks.push({ at, last }),
    first(): bigint {
      const oldEnough = nowMs() - OVERLAP_MS;
      while (marks[1] && marks[1].at <= oldEnough) marks.shift();
      return marks[0]?.last ?? start;
    },
  };
}

/** Requests whose content does not match their stored event, and requests without a stored event. */
async function findMisfits(
  { pool, sink }: System,
  o: {
    readonly subscribed: readonly { readonly path: string }[];
    readonly shopIds: readonly bigint[];
    readonly start: bigint;
  },
): Promise<string[]> {
  const receipts = o.subscribed.flatMap(({ path }) => sink.arrivals.at(path));
  const byEvent = Map.groupBy(receipts, ({ eventId }) => eventId);
  const wrong: string[] = [];
  for (let after = o.start; ; ) {
    const { rows: events } = await pool.query<ValueRow>(VALUES, [after, o.shopIds, PAGE]);
    for (const { eventId, value } of events) {
      const event = fromBinary(EventSchema, value);
      for (const one of byEvent.get(eventId) ?? []) {
        wrong.push(...[differenceFrom(one, event) ?? []].flat());
      }
      byEvent.delete(eventId);
    }
    const last = events.at(-1);
    if (!last) break;
    after = last.position;
  }
  const unknown = [...byEvent.keys()].map((id) => `event ${id} arrived but is not stored`);
  return [...wrong, ...unknown];
}

const EVENTS = `
select position, event_id as "eventId", trigger, key, shop_id as "shopId", created_at as "createdAt"
  from returns.events where position > $1 and shop_id = any($2) order by position`;

interface ValueRow {
  readonly position: bigint;
  readonly eventId: string;
  readonly value: Buffer;
}

/** Maximum number of events whose bodies are compared together. */
const PAGE = 1_000;

const VALUES = `
select position, event_id as "eventId", value
  from returns.events where position > $1 and shop_id = any($2) order by position limit $3`;

const UNDONE = `
select (select count(*) from returns.outbox where shop_id = any($1))
     + (select count(*) from returns.processing_jobs
         where shop_id = any($1) and state in ('queued', 'running')) as count`;
