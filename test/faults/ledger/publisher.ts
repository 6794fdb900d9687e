import { setTimeout as sleep } from 'node:timers/promises';
import { LOCAL_ACTOR } from '../../../deploy/local/clients.ts';
import { submission } from '../../../deploy/local/demo/submission.ts';
import { isUnavailable } from '../../../services/platform/errors.ts';
import type { Random } from '../../kit/random.ts';
import type { ReturnsReplica, System } from '../system/system.ts';
import type { TrialShop } from './shop.ts';

/** A change that the system has acknowledged: an event of this trigger and key must exist, soon or later. */
export interface Acknowledged {
  readonly trigger: string;
  readonly key: string;
  /** Milliseconds since the epoch, of the answer. */
  readonly at: number;
}

/** How often each change is made, in parts. */
export interface Mix {
  readonly submit: number;
  readonly label: number;
  readonly process: number;
}

export interface PublisherOptions {
  readonly system: System;
  readonly shop: TrialShop;
  readonly random: Random;
  /** Calls a second. */
  readonly perSecond: number;
  readonly mix?: Mix;
}

/** Changes returns through the public API, at a set rate, and records which changes were acknowledged. */
export interface Publisher {
  readonly acknowledged: readonly Acknowledged[];
  /** The last error, for people. */
  lastFailure(): unknown;
  /** Calls that were answered with a failure or not at all, and made again. */
  repeats(): number;
  /** Calls that wait for this replica's answer. */
  openAt(replica: ReturnsReplica): number;
  /**
   * Starts no more calls. Resolves when all started ones are acknowledged.
   *
   * @throws when one never is.
   */
  stop(): Promise<void>;
}

const DEFAULT_MIX: Mix = { submit: 6, label: 2, process: 2 };
/** More would only wait for each other: a busy machine is not to be buried under repeats. */
const MAX_OPEN = 16;
/** A change that is rejected for this long counts as lost. Milliseconds. */
const GIVE_UP_MS = 90_000;
const PAUSE_MS = 50;
/** A call that gets no answer is made again at the other replica. Milliseconds. */
const CALL_MS = 10_000;

type Call = (replica: ReturnsReplica, isRepeat: boolean) => Promise<Acknowledged[]>;
let serial = 0;

export function startPublisher(o: PublisherOptions): Publisher {
  const acknowledged: Acknowledged[] = [];
  const openReturns: bigint[] = [];
  const open = new Map<ReturnsReplica, number>();
  const working = new Set<Promise<void>>();
  const failures: unknown[] = [];
  let isStopped = false;
  let repeated = 0;
  let lastFailure: unknown;

  async function insist(call: Call): Promise<void> {
    const end = Date.now() + GIVE_UP_MS;
    for (let tries = 0; ; tries += 1) {
      const replica = o.random.pick(o.system.returns);
      open.set(replica, (open.get(replica) ?? 0) + 1);
      try {
        acknowledged.push(...(await call(replica, tries > 0)));
        return;
      } catch (error) {
        // A rejection is a fault of the trial. Only a missing answer justifies another call.
        if (!isUnavailable(error)) throw error;
        if (Date.now() > end) throw new Error('a change was never acknowledged', { cause: error });
        repeated += 1;
        lastFailure = error;
        await sleep(PAUSE_MS);
      } finally {
        open.set(replica, (open.get(replica) ?? 1) - 1);
      }
    }
  }

  const calls = callsOf(o, openReturns);
  const begin = (): void => {
    const work = insist(calls.next())
      .catch((error: unknown) => failures.push(error))
      .then(() => void working.delete(work));
    working.add(work);
  };

  const running = (async () => {
    let due = performance.now();
    while (!isStopped) {
      due += (1_000 / o.perSecond) * 2 * o.random.next();
      const wait = due - performance.now();
      if (wait > 0) await sleep(wait);
      if (!isStopped && working.size < MAX_OPEN) begin();
    }
  })();

  return {
    acknowledged,
    lastFailure: () => lastFailure,
    repeats: () => repeated,
    openAt: (replica) => open.get(replica) ?? 0,
    async stop() {
      isStopped = true;
      await running;
      await Promise.all(working);
      if (failures.length > 0) throw new AggregateError(failures, 'changes were lost');
    },
  };
}

/** The changes in the order of the seed. The return of each is chosen when it starts. */
function callsOf(o: PublisherOptions, openReturns: bigint[]): { next(): Call } {
  const { submit, label, process: close } = o.mix ?? DEFAULT_MIX;
  const common = { shopId: BigInt(o.shop.id), actor: LOCAL_ACTOR };
  const keyOf = (returnId: bigint): string => `${o.shop.id}:${returnId}`;
  const settings = { timeoutMs: CALL_MS };

  const submitOne = (): Call => {
    serial += 1;
    const request = submission(o.shop, { key: `faults-${o.shop.id}-${serial}`, serial, lines: 1 });
    return async ({ client }) => {
      const answer = await client.submitReturn(request, settings);
      const returnId = answer.return?.id ?? 0n;
      openReturns.push(returnId);
      return [{ trigger: 'return.created', key: keyOf(returnId), at: Date.now() }];
    };
  };
  const labelOne = (returnId: bigint): Call => {
    serial += 1;
    const idempotencyKey = `faults-label-${o.shop.id}-${serial}`;
    const text = { carrier: 'Sample Post', trackingNumber: `TRACK${serial}`, rate: '4.20' };
    const url = `https://labels.example.com/${serial}`;
    const request = { ...common, ...text, idempotencyKey, returnId, url };
    return async ({ client }) => {
      await client.recordLabel(request, settings);
      openReturns.push(returnId);
      const change = { key: keyOf(returnId), at: Date.now() };
      return ['label.created', 'return.updated'].map((trigger) => ({ trigger, ...change }));
    };
  };
  const processOne = (returnId: bigint): Call => {
    const request = { ...common, returnId, source: 'api' };
    return async ({ client }, isRepeat) => {
      const { result } = await client.processReturn(request, settings);
      // A repeat may find it closed by the first call, whose answer was lost.
      if (result.case === 'refused' && !isRepeat) throw new Error(result.value.message);
      return [{ trigger: 'return.closed', key: keyOf(returnId), at: Date.now() }];
    };
  };
  return {
    next() {
      const part = o.random.next() * (submit + label + close);
      if (part < submit || openReturns.length === 0) return submitOne();
      const at = o.random.between(0, openReturns.length - 1);
      // One change at a time, because a label is rejected once its return is closed.
      const [returnId = 0n] = openReturns.splice(at, 1);
      return part < submit + label ? labelOne(returnId) : processOne(returnId);
    },
  };
}
