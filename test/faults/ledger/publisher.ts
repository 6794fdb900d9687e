import { setTimeout as sleep } from 'node:timers/promises';
import { LOCAL_ACTOR } from '../../../deploy/local/clients.ts';
import { submission } from '../../../deploy/local/demo/submission.ts';
import { isUnavailable } from '../../../services/platform/values/errors.ts';
import type { Random } from '../../kit/random.ts';
import type { ReturnsReplica, System } from '../system/system.ts';
import type { TrialShop } from './shop.ts';

/** A change that the system has acknowledged. An event with this trigger and key must be stored. */
export interface Acknowledged {
  readonly trigger: string;
  readonly key: string;
  /** The time of the response. Milliseconds since the epoch. */
  readonly at: number;
}

/** The relative frequency of each change. */
export interface Mix {
  readonly submit: number;
  readonly label: number;
  readonly process: number;
}

export interface PublisherOptions {
  readonly system: System;
  readonly shop: TrialShop;
  readonly random: Random;
  /** Calls per second. */
  readonly perSecond: number;
  readonly mix?: Mix;
}

/** Changes returns over gRPC at a constant rate, and records the acknowledged changes. */
export interface Publisher {
  readonly acknowledged: readonly Acknowledged[];
  /** The last error, for messages. */
  lastFailure(): unknown;
  /** Number of calls that failed or got no response, and were repeated. */
  repeats(): number;
  /** Number of calls that wait for a response of this replica. */
  openAt(replica: ReturnsReplica): number;
  /**
   * Starts no more calls. Resolves when all started calls are acknowledged.
   *
   * @throws Error when a call was never acknowledged.
   */
  stop(): Promise<void>;
}

const DEFAULT_MIX: Mix = { submit: 6, label: 2, process: 2 };
/** Maximum number of concurrent calls. More calls would only slow a busy machine down. */
const MAX_OPEN = 16;
/** A change that fails for this long counts as lost. Milliseconds. */
const GIVE_UP_MS = 90_000;
const PAUSE_MS = 50;
/** Time limit of a call. Then it is repeated at the other replica. Milliseconds. */
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

  async function repeatCall(call: Call): Promise<void> {
    const end = Date.now() + GIVE_UP_MS;
    for (let tries = 0; ; tries += 1) {
      const replica = o.random.pick(o.system.returns);
      open.set(replica, (open.get(replica) ?? 0) + 1);
      try {
        acknowledged.push(...(await call(replica, tries > 0)));
        return;
      } catch (error) {
        // Only a missing response justifies a repeat. Any other error is a fault of the trial.
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
    const work = repeatCall(calls.next())
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

/** The changes in the order of the seed. The return is chosen when the change starts. */
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
      // The first call may have closed the return, and its response may have been lost.
      if (result.case === 'refused' && !isRepeat) throw new Error(result.value.message);
      return [{ trigger: 'return.closed', key: keyOf(returnId), at: Date.now() }];
    };
  };
  return {
    next() {
      const part = o.random.next() * (submit + label + close);
      if (part < submit || openReturns.length === 0) return submitOne();
      const at = o.random.between(0, openReturns.length - 1);
      // One change of a return at a time, because a closed return rejects labels.
      const [returnId = 0n] = openReturns.splice(at, 1);
      return part < submit + label ? labelOne(returnId) : processOne(returnId);
    },
  };
}
