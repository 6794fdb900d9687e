import { afterAll, afterEach, beforeAll, expect, test } from '@jest/globals';
import type pg from 'pg';
import { advanceClock, restoreClock } from '../../../test/kit/clock.ts';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import {
  ALL_PUBLISHED,
  drain,
  publisherOn,
  rememberingBus,
  testEvent,
} from '../../../test/kit/events/outbox.ts';
import type { BusRecord } from '../bus/event-bus.ts';
import { appendEvents } from './append.ts';
import type { Publisher } from './publisher.ts';
import { backlogOf } from './store.ts';

const RUNS = 60;
const OPERATIONS = 60;
const MOST_OPEN = 4;
/** Small, so that pages are always cut. */
const SMALL = { events: 4, bytes: 300 };

/** Pseudo-random numbers from 0 to below 1, by seed. */
function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

interface Open {
  readonly tx: pg.PoolClient;
  /** Each key changes under its own lock, so no two open transactions share a key. */
  readonly appended: { key: string; id: string }[];
}

/** A bus that acknowledges when the run tells it to, and sometimes rejects records that it may have stored. */
function whimsicalBus(chance: () => number) {
  const memory = rememberingBus();
  const pending: (() => void)[] = [];
  let isCalm = false;
  const publish = async (topic: string, records: readonly BusRecord[]) => {
    const whim = isCalm ? 1 : chance();
    if (whim < 0.1) throw new Error('refused');
    if (whim < 0.5) await new Promise<void>((done) => pending.push(done));
    await memory.bus.publish(topic, records);
    if (whim < 0.2) throw new Error('the answer is lost');
  };
  const answer = () => pending.splice(Math.floor(chance() * pending.length), 1)[0]?.();
  const calm = () => {
    isCalm = true;
    for (const done of pending.splice(0)) done();
  };
  return { bus: { publish }, ids: memory.ids, answer, calm };
}

class Run {
  readonly #pool: pg.Pool;
  readonly #chance: () => number;
  readonly #run: number;
  readonly bus: ReturnType<typeof whimsicalBus>;
  readonly #open: Open[] = [];
  /** Ids in the order of commits, by key. */
  readonly committed = new Map<string, string[]>();
  /** Two relays that both act as if they owned all shards. */
  readonly #relays: Publisher[];

  constructor(pool: pg.Pool, run: number) {
    this.#pool = pool;
    this.#run = run;
    this.#chance = random(run);
    this.bus = whimsicalBus(this.#chance);
    this.#relays = [this.#relay(), this.#relay()];
  }

  #relay(): Publisher {
    return publisherOn(this.#pool, this.bus.bus, SMALL);
  }

  #below(count: number): number {
    return Math.floor(this.#chance() * count);
  }

  async #begin(): Promise<Open> {
    const tx = await this.#pool.connect();
    await tx.query('begin');
    const open = { tx, appended: [] };
    this.#open.push(open);
    return open;
  }

  async #append(): Promise<void> {
    const isNew =
      this.#open.length === 0 || (this.#open.length < MOST_OPEN && this.#chance() < 0.5);
    const open = isNew ? await this.#begin() : this.#open[this.#below(this.#open.length)];
    const key = `${this.#run}:${this.#below(6)}`;
    const holder = this.#open.find(({ appended }) => appended.some((one) => one.key === key));
    if (!open || (holder && holder !== open)) return;
    const count = this.#chance() < 0.1 ? 12 : 1 + this.#below(2);
    const ids = await appendEvents(
      open.tx,
      Array.from({ length: count }, () => testEvent(key)),
    );
    open.appended.push(...ids.map((id) => ({ key, id })));
  }

  async #end(isCommitted: boolean): Promise<void> {
    const [open] = this.#open.splice(this.#below(this.#open.length), 1);
    if (!open) return;
    await open.tx.query(isCommitted ? 'commit' : 'rollback');
    open.tx.release();
    if (!isCommitted) return;
    for (const { key, id } of open.appended) {
      this.committed.set(key, [...(this.committed.get(key) ?? []), id]);
    }
  }

  async #step(): Promise<void> {
    const relay = this.#relays[this.#below(2)];
    relay?.notify([0, 1, 2, 3, 4, 5, 6, 7]);
    await relay?.step(this.#chance() < 0.5);
    await new Promise(setImmediate);
  }

  async operate(): Promise<void> {
    const choice = this.#chance();
    if (choice < 0.3) await this.#append();
    else if (choice < 0.45) await this.#end(this.#chance() < 0.8);
    else if (choice < 0.8) await this.#step();
    else if (choice < 0.9) this.bus.answer();
    else if (choice < 0.95) advanceClock(3_000);
    else this.#relays[this.#below(2)] = this.#relay();
  }

  /** All transactions end, and one of the relays that ran publishes what is left. */
  async quiet(): Promise<void> {
    while (this.#open.length > 0) await this.#end(true);
    this.bus.calm();
    await Promise.all(this.#relays.map((relay) => relay.finished()));
    advanceClock(3_000);
    await drain(this.#relays[this.#below(2)] ?? this.#relay());
  }
}

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase('fraud');
});
afterAll(() => database.drop());
afterEach(restoreClock);

test('with late commits, crashes and rejections every committed event is published, each key in order', async () => {
  for (let nth = 1; nth <= RUNS; nth += 1) {
    await database.pool.query(ALL_PUBLISHED);
    const run = new Run(database.pool, nth);
    for (let done = 0; done < OPERATIONS; done += 1) await run.operate();
    await run.quiet();
    const first = [...new Set(run.bus.ids())];
    for (const [key, ids] of run.committed) {
      const published = first.filter((id) => ids.includes(id));
      expect({ seed: nth, key, published }).toEqual({ seed: nth, key, published: ids });
    }
    const all = [...run.committed.values()].flat();
    expect({ seed: nth, published: first.length }).toEqual({ seed: nth, published: all.length });
    expect((await backlogOf(database.pool)).depth).toBe(0);
    restoreClock();
  }
}, 120_000);
