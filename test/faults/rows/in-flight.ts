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
  readonly random: Random;
}

/** A part of the system that a row kills, and how its work in flight is counted. */
export interface Target {
  readonly name: string;
  /** The service in whose process it runs. */
  readonly service: 'returns' | 'webhooks';
  /** A quick check of the running process: whether it seems to have work in flight. */
  mayHit(probe: Probe): Promise<boolean>;
  /**
   * Counts the work in flight of the frozen process.
   *
   * @param since the time of the freeze.
   */
  inFlight(probe: Probe, since: number): Promise<number>;
}

/** Work that ends within this time belongs to other processes. Milliseconds. */
const OTHERS_MS = 25;

/** Stored, unpublished events. Those that are still there a moment later wait for the frozen process. */
const relay: Target = {
  name: 'relay',
  service: 'returns',
  mayHit: async ({ system, trial }) => (await pointersOf(system, trial.shop.id)).size > 0,
  inFlight: ({ system, trial }) => stays(() => pointersOf(system, trial.shop.id)),
};

/** Maximum time from the commit of an event until a listener has handled it, on a machine that is not busy. Milliseconds. */
const HANDLED_MS = 20;

/**
 * Published events that no listener has handled. A listener handles an event within milliseconds, so a check that sees a
 * published one is often too late. Therefore the freeze comes at a random time after an event was stored, and the relays
 * publish the event while the listener is frozen, if they have not done so before.
 */
const consumer: Target = {
  name: 'consumer',
  service: 'webhooks',
  async mayHit({ system, trial, random }) {
    if ((await unhandledOf(system, trial.shop.id)).size === 0) return false;
    await sleep(random.between(0, HANDLED_MS));
    return true;
  },
  async inFlight({ system, trial }) {
    const atFreeze = await unhandledOf(system, trial.shop.id);
    if (atFreeze.size === 0) return 0;
    await sleep(OTHERS_MS);
    const unread = await unreadOf(system, trial.shop.id);
    return [...atFreeze].filter((id) => unread.has(id)).length;
  },
};

/** Requests on the frozen process's connections to which the sink had not responded at the freeze. */
const worker: Target = {
  name: 'delivery worker',
  service: 'webhooks',
  mayHit: async ({ system }) => system.sink.arrivals.open().length > 0,
  async inFlight({ system, trial, member }, since) {
    const ports = await portsOf(member.process.pid());
    await system.sink.flush();
    return [...trial.paths]
      .flatMap((path) => system.sink.arrivals.at(path))
      .filter(({ fromPort, endedAt }) => ports.has(fromPort) && (endedAt ?? since) >= since).length;
  },
};

/** Calls that wait for a response of the frozen process. */
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

/** Number of items of `probe` that are still there a moment later. */
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
 * Ids of the shop's events that Kafka has and no listener has handled. Only of the last few seconds, because it is read
 * often while the system is measured.
 */
export async function unreadOf(system: System, shopId: number): Promise<Set<string>> {
  const { rows } = await system.pool.query<{ id: string }>({
    // Prepared, because the events are handled before a statement over many partitions is planned.
    name: 'unread-of',
    text: `select e.event_id as id
       from (select shop_id, position, event_id from returns.events
              where shop_id = $1 and day >= current_date - 1
              order by day desc, position desc limit 200) e
      where not exists (select from returns.outbox o where o.shop_id = e.shop_id and o.position = e.position)
        and not exists (select from webhooks.consumed_events c
                         where c.shop_id = e.shop_id and c.event_id = e.event_id)`,
    values: [shopId],
  });
  return new Set(rows.map(({ id }) => id));
}

/** Ids of the shop's last events that no listener has handled, published or not. */
async function unhandledOf(system: System, shopId: number): Promise<Set<string>> {
  const { rows } = await system.pool.query<{ id: string }>({
    name: 'unhandled-of',
    text: `select e.event_id as id
       from (select shop_id, event_id from returns.events
              where shop_id = $1 and day >= current_date - 1
              order by day desc, position desc limit 20) e
      where not exists (select from webhooks.consumed_events c
                         where c.shop_id = e.shop_id and c.event_id = e.event_id)`,
    values: [shopId],
  });
  return new Set(rows.map(({ id }) => id));
}

/**
 * Webhook-ids of requests that the sink has accepted and that are still in the queue. They may be repeated. The unsent
 * backlog is left out.
 */
export async function unrecordedIn(
  { pool, sink }: System,
  { shops, paths }: Trial,
): Promise<Set<string>> {
  await sink.flush();
  const seen = [...paths]
    .flatMap((path) => sink.arrivals.at(path))
    .filter(({ accepted }) => accepted);
  const { rows } = await pool.query<{ id: string }>(
    `select 'msg_' || id as id from webhooks.queue
      where shop_id = any($1) and 'msg_' || id = any($2::text[])`,
    [shops.map(({ id }) => BigInt(id)), seen.map(({ webhookId }) => webhookId)],
  );
  return new Set(rows.map(({ id }) => id));
}

const MAX_CHECKS = 200;
const BUSY_MS = 60_000;

/** A process that was frozen with work in flight. */
export interface FrozenProcess {
  readonly member: Member;
  readonly inFlight: number;
  /** The attempts that may be repeated. */
  readonly attempts: number;
  readonly ports: ReadonlySet<number>;
  readonly unrecorded: ReadonlySet<string>;
  readonly at: number;
  /** Number of earlier checks. */
  readonly checks: number;
}

/**
 * Freezes processes of the service repeatedly until one has work in flight, because a fault without effect proves
 * nothing.
 *
 * @throws Error when none has work in flight.
 */
export async function freezeWithWork(
  o: Omit<Probe, 'member'> & { readonly target: Target },
): Promise<FrozenProcess> {
  const { system, target, random } = o;
  for (let checks = 1; checks <= MAX_CHECKS; checks += 1) {
    // The work may be in any of them.
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
      const receipts = [...o.trial.paths].flatMap((path) => system.sink.arrivals.at(path));
      const attempts = inFlightAt(receipts, fault).length;
      return { member, inFlight, attempts, ports, unrecorded, at, checks };
    }
    member.process.thaw();
    await sleep(random.between(3, 40));
  }
  const { acknowledged, lastFailure } = o.publisher;
  throw new Error(
    `${target.name} never had work in flight; ${acknowledged.length} changes so far`,
    { cause: lastFailure() },
  );
}
