import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import { type EventBus, eventsTopic } from './bus/event-bus.ts';
import { observeBus } from './bus/observe.ts';
import type { Logger } from './log.ts';
import { schemaState } from './migrations.ts';
import { type Relay, startRelay } from './outbox/relay.ts';
import type { Telemetry } from './telemetry.ts';
import { within } from './within.ts';
import type { Worker } from './worker.ts';

export interface BackgroundOptions {
  /** The service and its schema. */
  readonly name: string;
  readonly pool: pg.Pool;
  /** Pools whose commits are relayed as well. */
  readonly writers?: readonly pg.Pool[];
  readonly bus: EventBus;
  readonly logger: Logger;
  readonly telemetry: Telemetry;
  /** Whether there is an outbox to relay. */
  readonly publishes: boolean;
  /** How long published events are kept. Days. */
  readonly retentionDays?: number;
  readonly workers: readonly Worker[] | (() => Promise<readonly Worker[]>);
}

/** What a service does besides answering calls. */
export interface Background {
  /** Whether the schema was found to fit the code, and so the work was begun. */
  isRunning(): boolean;
  /** No new work; waits for what is in flight, for at most 20 s. */
  stopWorkers(): Promise<void>;
  /** Publishes what the outbox still holds, for at most 5 s, and gives the leases back. */
  stopRelay(): Promise<void>;
}

/** How often a schema that does not fit is looked at again. Milliseconds. */
const RECHECK_MS = 1_000;

/** The limits of a stop. Milliseconds. */
const DRAIN_MS = 20_000;
const FLUSH_MS = 5_000;

/**
 * Begins the background work as soon as the schema fits the code.
 *
 * It is judged once: a release migrates before its pods are replaced, and those that are serving
 * go on, since migrations work with the code before them.
 *
 * Resolves when the first look is done. @throws what starting the work throws in that first look.
 */
export async function startBackground(o: BackgroundOptions): Promise<Background> {
  const stopping = new AbortController();
  let relay: Relay | undefined;
  let workers: readonly Worker[] = [];
  let running = false;

  observeBus(o.telemetry.meter, o.bus);

  const begin = async (): Promise<void> => {
    if (o.publishes) relay ??= startRelay({ ...o, topic: eventsTopic(o.name) });
    workers = typeof o.workers === 'function' ? await o.workers() : o.workers;
    running = true;
  };

  const waitAndBegin = async (): Promise<void> => {
    while (!stopping.signal.aborted) {
      await sleep(RECHECK_MS, undefined, { signal: stopping.signal }).catch(() => {});
      if (stopping.signal.aborted) return;
      try {
        if (await fits(o)) return await begin();
      } catch (error) {
        o.logger.error({ err: error }, 'background work could not start');
      }
    }
  };

  let waiting: Promise<void> = Promise.resolve();
  try {
    if (await fits(o)) await begin();
    else waiting = waitAndBegin();
  } catch (error) {
    await relay?.stop();
    throw error;
  }

  return {
    isRunning: () => running,
    async stopWorkers() {
      stopping.abort();
      await waiting;
      const all = Promise.all(workers.map((worker) => worker.stop()));
      if (!(await within(DRAIN_MS, all))) o.logger.warn('background work did not finish in time');
    },
    async stopRelay() {
      if (!relay) return;
      const flushed = await within(FLUSH_MS, relay.flush()).catch(() => false);
      if (!flushed) o.logger.warn('events are left in the outbox for the next process');
      await within(FLUSH_MS, relay.stop());
    },
  };
}

/** Whether the schema fits; a database that is away is a reason to look again, not to give up. */
async function fits(o: BackgroundOptions): Promise<boolean> {
  try {
    const { state, detail } = await schemaState(o.pool, o.name);
    if (state !== 'current') o.logger.error({ state }, `not serving: ${detail}`);
    return state === 'current';
  } catch (error) {
    o.logger.error({ err: error }, 'not serving: the schema could not be read');
    return false;
  }
}
