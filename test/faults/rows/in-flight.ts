import { setTimeout as sleep } from 'node:timers/promises';
import type { Random } from '../../kit/random.ts';
import { inFlightAt } from '../ledger/judge.ts';
import type { Publisher } from '../ledger/publisher.ts';
import { portsOf } from '../system/sockets.ts';
import type { Member, System } from '../system/system.ts';
import { nowMs, waitFor } from '../wait.ts';
import type { Trial } from './trial.ts';

/** The process to check, and its system. */
interface Probe {
  readonly system: System;
  readonly trial: Trial;
  readonly publisher: Publisher;
  readonly member: Member;
}

/** A part of the system to be killed, and how much it is in the middle of. */
export interface Target {
  readonly name: string;
  /** Whose process it lives in. */
  readonly service: 'returns' | 'webhooks';
  /** A quick check of the running process: whether a freeze may have an effect. */
  mayHit(probe: Probe): Promise<boolean>;
  /**
   * Counts the work in flight of the frozen process.
   *
   * @param since when it froze.
   */
  inFlight(probe: Probe, since: number): Promise<number>;
}

/** Work that ends within this time belongs to other processes. Milliseconds. */
const OTHERS_MS = 25;

/** Stored events that are not published. Those that are still there after a moment wait for the frozen process. */
const relay: Target = {
  name: 'relay',
  service: 'returns',
  mayHit: async ({ system, trial }) => (await pointersOf(system, trial.shop.id)).size > 0,
  inFlight: ({ system, trial }) => stays(() => pointersOf(system, trial.shop.id)),
};

/** Published events that no listener has handled. */
const consumer: Target = {
  name: 'consumer',
  service: 'webhooks',
  mayHit: async ({ system, trial }) => (await unreadOf(system, trial.shop.id)).size > 0,
  inFlight: ({ system, trial }) => stays(() => unreadOf(system, trial.shop.id)),
};

/** Requests on the frozen process's own connections that the sink had not answered when it froze. */
const worker: Target = {
  name: 'delivery worker',
  service: 'webhooks',
  mayHit: async ({ system }) => system.sink.book.open().length > 0,
  async inFlight({ system, trial, member }, since) {
    const ports = await portsOf(member.process.pid());
    await system.sink.flush();
    return [...trial.paths]
      .flatMap((path) => system.sink.book.at(path))
      .filter(({ fromPort, endedAt }) => ports.has(fromPort) && (endedAt ?? since) >= since).length;
  },
};

/** Calls that wait for an answer of the frozen process. */
const returns: Target = {
  name: 'returns service',
  service: 'returns',
  mayHit: async (probe) => (await returns.inFlight(probe, nowMs())) > 0,
  async inFlight({ system, publisher, member }) {
    const replica = system.returns.find((one) => one.member === member);
    return replica ? publisher.openAt(replica) : 0;
  },
};

export const TARGETS = { relay, consumer, worker, returns } as const;

/** How many of the items of `probe` are still there a moment later. */
async function stays(probe: () => Promise<ReadonlySet<string>>): Promise<number> {
  const before = await probe();
  if (before.size === 0) return 0;
  await sleep(OTHERS_MS);
  const after = await probe();
  return [...before].filter((one) => after.has(one)).length;
}

async function pointersOf(system: System, shopId: number): Promise<Set<string>> {
  const { rows } = await system.pool.query<{ position: bigint }>(
    'select position from returns.outbox where shop_id = $1 limit 1000',
    [shopId],
  );
  return new Set(rows.map(({ position }) => String(position)));
}

/**
 * Events of the shop that Kafka has and no listener has handled, by id; of the last few seconds, as it
 * is asked over and over while the system is measured.
 */
export async function unreadOf(system: System, shopId: number): Promise<Set<string>> {
  const { rows } = await system.pool.query<{ id: string }>(
    `select e.event_id as id
       from (select shop_id, position, event_id from returns.events
              where shop_id = $1 and day >= current_date - 1
              order by day desc, position desc limit 200) e
      where not exists (select from returns.outbox o where o.shop_id = e.shop_id and o.position = e.position)
        and not exists (select from webhooks.consumed_events c
                         where c.shop_id = e.shop_id and c.event_id = e.event_id)`,
    [shopId],
  );
  return new Set(rows.map(({ id }) => id));
}

/**
 * By webhook-id: requests that the sink has accepted and that are still in the queue, so that they may be repeated,
 * however long ago they were answered. Without the unsent backlog.
 */
export async function unrecordedIn(
  { pool, sink }: System,
  { shops, paths }: Trial,
): Promise<Set<string>> {
  await sink.flush();
  const seen = [...paths].flatMap((path) => sink.book.at(path)).filter(({ accepted }) => accepted);
  const { rows } = await pool.query<{ id: string }>(
    `select 'msg_' || id as id from webhooks.queue
      where shop_id = any($1) and 'msg_' || id = any($2::text[])`,
    [shops.map(({ id }) => BigInt(id)), seen.map(({ webhookId }) => webhookId)],
  );
  return new Set(rows.map(({ id }) => id));
}

const MOST_CHECKS = 200;
const BUSY_MS = 60_000;

/** A process that was frozen with work in flight. */
export interface Caught {
  readonly member: Member;
  readonly inFlight: number;
  /** Its attempts that may be repeated. */
  readonly attempts: number;
  readonly ports: ReadonlySet<number>;
  readonly unrecorded: ReadonlySet<string>;
  readonly at: number;
  /** How many checks were made before. */
  readonly checks: number;
}

/**
 * Freezes a process of the service again and again until it has work in flight, because a fault without effect proves
 * nothing.
 *
 * @throws Error when it never has.
 */
export async function catchInTheAct(
  o: Omit<Probe, 'member'> & { readonly target: Target; readonly random: Random },
): Promise<Caught> {
  const { system, target, random } = o;
  for (let checks = 1; checks <= MOST_CHECKS; checks += 1) {
    // Any of them: the work may lie with one alone.
    const member = random.pick(system.members(target.service));
    const probe = { ...o, member };
    const what = `${target.name} has something to do`;
    await waitFor(() => target.mayHit(probe), { what, withinMs: BUSY_MS, everyMs: 2 });
    await member.process.freeze();
    const at = nowMs();
    const inFlight = await target.inFlight(probe, at);
    if (inFlight > 0) {
      const ports = await portsOf(member.process.pid());
      const unrecorded = await unrecordedIn(system, o.trial);
      const fault = { from: at, to: at, ports, unrecorded };
      const receipts = [...o.trial.paths].flatMap((path) => system.sink.book.at(path));
      const attempts = inFlightAt(receipts, fault).length;
      return { member, inFlight, attempts, ports, unrecorded, at, checks };
    }
    member.process.thaw();
    await sleep(random.between(3, 40));
  }
  const { acknowledged, lastFailure } = o.publisher;
  throw new Error(
    `${target.name} was never in the middle of anything; ${acknowledged.length} changes so far`,
    { cause: lastFailure() },
  );
}
