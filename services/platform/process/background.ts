import type { Meter } from '@opentelemetry/api';
import type pg from 'pg';
import { type EventBus, eventsTopic } from '../bus/event-bus.ts';
import { type Relay, startRelay } from '../outbox/relay.ts';
import { schemaState } from '../postgres/schema-state.ts';
import type { Logger } from '../telemetry/log.ts';
import type { Telemetry } from '../telemetry/telemetry.ts';
import { within } from './within.ts';
import { startLoop, type Worker } from './worker.ts';

interface BackgroundOptions {
  /** The name of the service, which is also that of its schema. */
  readonly name: string;
  readonly pool: pg.Pool;
  /** Additional pools whose commits notify the relay. */
  readonly writers?: readonly pg.Pool[];
  readonly bus: EventBus;
  readonly logger: Logger;
  readonly telemetry: Telemetry;
  /** Whether the service has an outbox, so that it needs a relay. */
  readonly publishes: boolean;
  /** How long published events are kept. Days. */
  readonly retentionDays: number;
  readonly workers: readonly Worker[] | (() => Promise<readonly Worker[]>);
}

/** The work of a service that no call causes. */
export interface Background {
  /** Whether the work has started, because the schema fits the code. */
  isRunning(): boolean;
  /** Stops the workers: they start no new work. Waits up to 20 s for the work in flight. */
  stopWorkers(): Promise<void>;
  /** Publishes the rest of the outbox for up to 5 s, then releases the leases. */
  stopRelay(): Promise<void>;
}

/** How often the schema is checked again until it fits. Milliseconds. */
const RECHECK_MS = 1_000;

/** Maximum times of the steps of a stop. Milliseconds. */
const DRAIN_MS = 20_000;
const FLUSH_MS = 5_000;

/**
 * Starts the background work as soon as the schema fits the code.
 *
 * The schema is not checked again after that. A release migrates the schema before it replaces the pods, and the
 * running pods continue, because migrations work with the code before them.
 *
 * Resolves after the first check. @throws the error of the start of the work, when the schema fits at the first check.
 */
export async function startBackground(o: BackgroundOptions): Promise<Background> {
  let relay: Relay | undefined;
  let workers: readonly Worker[] = [];
  let running = false;

  observeBus(o.telemetry.meter, o.bus);

  const begin = async (): Promise<void> => {
    if (o.publishes) relay ??= startRelay({ ...o, topic: eventsTopic(o.name) });
    workers = typeof o.workers === 'function' ? await o.workers() : o.workers;
    running = true;
  };

  const waitAndBegin = () =>
    startLoop({
      name: 'start of background work',
      logger: o.logger,
      idleMs: RECHECK_MS,
      delayMs: RECHECK_MS,
      async step() {
        if (!(await fits(o))) return 'idle';
        await begin();
        return 'done';
      },
    });

  let waiting: Worker | undefined;
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
      await waiting?.stop();
      const all = Promise.all(workers.map((worker) => worker.stop()));
      if (!(await within(DRAIN_MS, all))) o.logger.warn('background work not finished in time');
    },
    async stopRelay() {
      if (!relay) return;
      const flushed = await within(FLUSH_MS, relay.flush()).catch(() => false);
      if (!flushed) o.logger.warn('outbox not empty at stop, the next process publishes the rest');
      await within(FLUSH_MS, relay.stop());
    },
  };
}

/**
 * Whether the schema fits the code. Returns false while the database is unavailable, so that `startBackground` checks
 * again.
 */
async function fits(o: BackgroundOptions): Promise<boolean> {
  try {
    const { state, detail } = await schemaState(o.pool, o.name);
    if (state !== 'fits') o.logger.error({ state }, `not serving: ${detail}`);
    return state === 'fits';
  } catch (error) {
    o.logger.error({ err: error }, 'not serving: schema not readable');
    return false;
  }
}

/** For this time, scrapes of several collectors share one request to the brokers. Milliseconds. */
const CACHE_MS = 5_000;

/** Adds a metric that is 1 while the event bus answers and 0 otherwise, checked at each scrape. */
function observeBus(meter: Meter, bus: EventBus): void {
  let check: Promise<boolean> | undefined;
  let until = 0;
  const isUp = (): Promise<boolean> => {
    if (check === undefined || performance.now() >= until) {
      until = performance.now() + CACHE_MS;
      check = bus.health().then(
        () => true,
        () => false,
      );
    }
    return check;
  };
  meter
    .createObservableGauge('event_bus_up', {
      description: 'Whether the event bus answers. While it does not, events wait in the outbox.',
    })
    .addCallback(async (result) => result.observe((await isUp()) ? 1 : 0));
}
