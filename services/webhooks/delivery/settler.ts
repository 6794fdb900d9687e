import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import type { Logger } from '../../platform/log.ts';
import { isOutage } from '../../platform/postgres.ts';
import { laneKeyOf } from './lane.ts';
import { type EndpointChange, type Settled, type Settlement, settle } from './settle.ts';

export interface SettlerOptions {
  readonly pool: pg.Pool;
  readonly logger: Logger;
  readonly offsetMs: () => number;
  /** How addresses fare that changed since the last call; asked once per statement. */
  readonly takeChanges: () => EndpointChange[];
  /** Told of what was written, or given up. */
  readonly onSettled: (batch: readonly Settlement[], settled: Settled) => void;
}

export interface Settler {
  add(settlement: Settlement): void;
  /** Resolves when everything is written; undecided outcomes are given up after the time. Milliseconds. */
  drain(timeoutMs: number): Promise<void>;
}

/** Outcomes written by one statement. */
const MAX_BATCH = 256;
/** Outcomes that end together are written together: after so long, or as soon as there are so many. Milliseconds. */
const GATHER_MS = 20;
const ENOUGH = 64;
const FIRST_PAUSE_MS = 50;
const MAX_PAUSE_MS = 1_000;
/** Until outcomes that were passed over are tried again. Milliseconds. */
const PASSED_PAUSE_MS = 100;
/** Lanes whose failures are remembered here. */
const MAX_FAILING = 10_000;

const NOTHING: Settled = { stale: [], passed: [], notices: [] };

/**
 * Writes outcomes down, in batches: while one statement runs, the outcomes for the next one gather.
 * Over an outage a batch is written again until it succeeds: whether the leases still hold, the
 * statement finds out. Outcomes that were passed over are tried again with a later one.
 */
export function createSettler(o: SettlerOptions): Settler {
  const waiting: Settlement[] = [];
  /** What was read as free of failures may have failed since. */
  const failing = new Set<string>();
  let running: Promise<void> | undefined;
  let onEnough = (): void => {};
  let giveUpAt = Number.POSITIVE_INFINITY;

  async function run(): Promise<void> {
    await gathered();
    let passed: Settlement[] = [];
    let againAt = 0;
    while (waiting.length + passed.length > 0) {
      if (passed.length > 0 && performance.now() >= againAt) waiting.unshift(...passed.splice(0));
      if (waiting.length === 0) {
        await sleep(againAt - performance.now());
        continue;
      }
      const batch = waiting.splice(0, MAX_BATCH).map(withFailing);
      const settled = await untilWritten(batch, o.takeChanges());
      const again = performance.now() < giveUpAt ? new Set(settled.passed) : new Set<Settlement>();
      if (again.size > 0) {
        passed = [...passed, ...again];
        againAt = performance.now() + PASSED_PAUSE_MS;
      } else if (settled.passed.length > 0) {
        o.logger.error({ deliveries: settled.passed.length }, 'attempts were not written down');
      }
      o.onSettled(
        batch.filter((one) => !again.has(one)),
        settled,
      );
    }
  }

  async function gathered(): Promise<void> {
    await new Promise<void>((done) => {
      const timer = setTimeout(done, GATHER_MS);
      onEnough = () => {
        clearTimeout(timer);
        done();
      };
      if (waiting.length >= ENOUGH || giveUpAt < Number.POSITIVE_INFINITY) onEnough();
    });
    onEnough = () => {};
  }

  function withFailing(settlement: Settlement): Settlement {
    const key = laneKeyOf(settlement.due);
    if (settlement.ended !== 'delivered') {
      if (failing.size >= MAX_FAILING) failing.clear();
      if (settlement.sent) failing.add(key);
      return settlement;
    }
    if (!failing.delete(key) || settlement.due.isFailing) return settlement;
    return { ...settlement, due: { ...settlement.due, isFailing: true } };
  }

  async function untilWritten(
    batch: readonly Settlement[],
    changes: EndpointChange[],
  ): Promise<Settled> {
    let pause = FIRST_PAUSE_MS;
    for (;;) {
      try {
        return await settle(o.pool, batch, changes, { offsetMs: o.offsetMs() });
      } catch (error) {
        if (!isOutage(error)) return apart(batch, changes, error);
        if (performance.now() >= giveUpAt) {
          o.logger.error(
            { err: error, deliveries: batch.length },
            'attempts were not written down',
          );
          return NOTHING;
        }
        o.logger.warn(
          { err: error, deliveries: batch.length },
          'attempts are not written down yet',
        );
        await sleep(pause);
        pause = Math.min(pause * 2, MAX_PAUSE_MS);
      }
    }
  }

  /** Something of it is at fault: the rest is written all the same. */
  async function apart(
    batch: readonly Settlement[],
    changes: EndpointChange[],
    error: unknown,
  ): Promise<Settled> {
    if (changes.length === 0) return oneByOne(batch, error);
    if (batch.length > 0) {
      await untilWritten([], changes);
      return oneByOne(batch, error);
    }
    o.logger.error({ err: error }, 'how addresses fare cannot be written down');
    return NOTHING;
  }

  /** One of them is at fault: the others are written all the same, and of that one what can be. */
  async function oneByOne(batch: readonly Settlement[], error: unknown): Promise<Settled> {
    const [first] = batch;
    if (batch.length === 1 && first) {
      const about = { err: error, delivery: first.due.id };
      o.logger.error(about, 'an attempt cannot be written down as it is');
      const less = lessOf(first);
      if (!less) return NOTHING;
      const settled = await untilWritten([less], []);
      return { ...settled, passed: settled.passed.length > 0 ? [first] : [] };
    }
    const parts: Settled[] = [];
    for (const one of batch) parts.push(await untilWritten([one], []));
    return {
      stale: parts.flatMap((part) => part.stale),
      passed: parts.flatMap((part) => part.passed),
      notices: parts.flatMap((part) => part.notices),
    };
  }

  function start(): void {
    running ??= run().finally(() => {
      running = undefined;
      if (waiting.length > 0) start();
    });
  }

  return {
    add(settlement) {
      waiting.push(settlement);
      start();
      if (waiting.length >= ENOUGH) onEnough();
    },
    async drain(timeoutMs) {
      giveUpAt = performance.now() + timeoutMs;
      onEnough();
      while (running !== undefined) await running;
    },
  };
}

/** What follows from an attempt that left no trace is put off, so that it is not made over and over. Milliseconds. */
const UNTOLD_PAUSE_MS = 60_000;

/** What may be written of an outcome that was refused: first without its texts, then only what follows from it. */
function lessOf(one: Settlement): Settlement | undefined {
  const { sent, pauseMs } = one;
  if (!sent) return undefined;
  if (sent.headers === '') {
    return { ...one, sent: undefined, pauseMs: Math.max(pauseMs, UNTOLD_PAUSE_MS) };
  }
  const outcome = { ...sent.outcome, error: 'what came of it cannot be shown', excerpt: '' };
  return { ...one, sent: { outcome, headers: '' } };
}
