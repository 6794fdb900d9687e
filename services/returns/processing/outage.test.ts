import { Code, ConnectError } from '@connectrpc/connect';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type pg from 'pg';
import { type Return, ReturnState } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { RestockMode } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { withClockAhead } from '../../../test/kit/clock.ts';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import { type CutDatabase, cutDatabase } from '../../../test/kit/postgres/cut-database.ts';
import { type Clocks, startClocks } from '../../../test/kit/processing-clock/clocks.ts';
import { Worker } from '../../../test/kit/processing-clock/worker.ts';
import { World } from '../../../test/kit/processing-clock/world.ts';
import {
  claimOne,
  newReturn,
  newShop,
  reload,
  requestProcessing,
  runDeps,
  runDue,
  triggersOf,
} from '../../../test/kit/services/processing.ts';
import { testTelemetry } from '../../../test/kit/services/telemetry.ts';
import { until } from '../../../test/kit/until.ts';
import { createEmbeddedCommerce } from '../../commerce/embedded.ts';
import type { CommerceProvider } from '../../commerce/provider.ts';
import { resilient } from '../../commerce/providers.ts';
import { createLeaseWatch } from '../../platform/leases/lease-watch.ts';
import { createPool } from '../../platform/postgres/postgres.ts';
import type { Telemetry } from '../../platform/telemetry/telemetry.ts';
import { claimJobs, type Job, LEASE_MS, OPEN_JOB, PROCESSING, untilNextDueMs } from './jobs.ts';
import { type RunDeps, runJob } from './run.ts';
import { measureBacklog, takeOverJobs } from './worker.ts';

let db: TestDatabase;
beforeAll(async () => {
  db = await createTestDatabase('returns');
});
afterAll(() => db.drop());

describe('a run during an outage', () => {
  let proxy: CutDatabase;
  /** The pool of the process under test. */
  let pool: pg.Pool;
  beforeAll(async () => {
    proxy = await cutDatabase(db.url);
    pool = createPool(proxy.url, { max: 4 });
  });
  afterAll(async () => {
    await pool.end();
    await proxy.close();
  });
  beforeEach(() => proxy.mend());

  const never = new AbortController().signal;

  interface Counted {
    readonly failures: number;
    readonly failing_since: Date | null;
    readonly takeovers: number;
    readonly state: string;
  }

  async function jobOf(of: Return): Promise<Counted> {
    const { rows } = await db.pool.query<Counted>(
      `select failures, failing_since, takeovers, state from processing_jobs
      where shop_id = $1 and return_id = $2 order by id desc limit 1`,
      [of.shopId, of.id],
    );
    if (!rows[0]) throw new Error('there is no job');
    return rows[0];
  }

  /** Runs a job until the database is cut off, repairs the database, and waits until the run has released the job. */
  async function runThroughOutage(deps: RunDeps): Promise<void> {
    const isCut = new Promise<void>((done) => {
      const { logger } = deps;
      const warn = () => done();
      Object.assign(deps, { logger: { ...logger, warn, info: () => {} } });
    });
    const running = runJob(deps, await claimOne(db.pool), never);
    await isCut;
    proxy.mend();
    await running;
  }

  async function untilClosed(deps: RunDeps, of: Return): Promise<void> {
    await until(async () => {
      await runDue(deps);
      return (await reload(db.pool, of)).state === ReturnState.CLOSED;
    });
  }

  const embedded = () => resilient(createEmbeddedCommerce(pool));
  const cases: [string, () => CommerceProvider][] = [
    [
      'while the provider writes its ledger',
      () => {
        const provider = embedded();
        return {
          ...provider,
          create: (...words) => {
            proxy.cut();
            return provider.create(...words);
          },
        };
      },
    ],
    [
      'for a moment, while the provider writes its ledger',
      () => {
        const provider = embedded();
        return {
          ...provider,
          async create(...words) {
            proxy.cut();
            try {
              return await provider.create(...words);
            } finally {
              proxy.mend();
            }
          },
        };
      },
    ],
    [
      'after the provider acted, before that is recorded',
      () => {
        const provider = embedded();
        return {
          ...provider,
          async create(...words) {
            const made = await provider.create(...words);
            proxy.cut();
            return made;
          },
        };
      },
    ],
  ];

  describe('an outage of our own database', () => {
    test.each(cases)('does not count as an attempt: %s', async (_, provider) => {
      const of = await newReturn(db.pool, await newShop(db.pool));
      await requestProcessing(db.pool, of);
      await runThroughOutage(runDeps(pool, provider()));
      expect(await jobOf(of)).toEqual({
        failures: 0,
        failing_since: null,
        takeovers: 0,
        state: 'queued',
      });

      await untilClosed(runDeps(pool, embedded()), of);
      const { refunds } = await createEmbeddedCommerce(db.pool).ordersOf(of.id);
      expect(refunds).toHaveLength(1);
      expect(await triggersOf(db.pool, of)).toEqual(['return.closed']);
    });

    test('never fails a return, also when it is longer than the time limit of retries', async () => {
      const of = await newReturn(db.pool, await newShop(db.pool));
      await requestProcessing(db.pool, of);
      const cutting = (cases[0]?.[1] ?? embedded)();
      await runThroughOutage(runDeps(pool, cutting));
      // Pretends that the first failure of the provider was long ago, too.
      await db.pool.query(
        `update processing_jobs set failing_since = now() - interval '2 days', due_at = now()
        where shop_id = $1 and return_id = $2`,
        [of.shopId, of.id],
      );
      await runThroughOutage(runDeps(pool, cutting));
      expect(await jobOf(of)).toMatchObject({ state: 'queued', failures: 0 });
      await untilClosed(runDeps(pool, embedded()), of);
    });
  });

  describe('an outage of the destinations service', () => {
    test('does not count as a failure, and no money moves before it ends', async () => {
      const shop = await newShop(db.pool, { restockMode: RestockMode.WEBHOOK });
      const of = await newReturn(db.pool, shop, { destinationId: 11n });
      await requestProcessing(db.pool, of);
      const unavailable = {
        getDestination: () => Promise.reject(new ConnectError('no', Code.Unavailable)),
      };
      const commerce = createEmbeddedCommerce(db.pool);
      const deps = { ...runDeps(db.pool, commerce), destinations: unavailable };
      await runJob(deps, await claimOne(db.pool), never);
      expect(await jobOf(of)).toMatchObject({ state: 'queued', failures: 0, failing_since: null });
      expect((await commerce.ordersOf(of.id)).refunds).toEqual([]);
      await untilClosed(runDeps(db.pool, commerce), of);
    });
  });
});

describe('a job that another process may take over', () => {
  let job: Job;
  beforeEach(async () => {
    await db.pool.query('delete from processing_jobs');
    await requestProcessing(db.pool, await newReturn(db.pool, await newShop(db.pool)));
    job = await claimOne(db.pool);
    await PROCESSING.renew(db.pool, [job]);
  });

  /** As if the clock of the database had been set: shifts the stored times. */
  const setClock = (step: string) =>
    db.pool.query('update processing_jobs set due_at = due_at - $1::interval', [step]);

  /** Takes over jobs as another process, which saw the leases before. */
  async function otherProcess() {
    const watch = createLeaseWatch(LEASE_MS);
    const takeOver = async () => (await takeOverJobs(db.pool, watch)).taken;
    expect(await takeOver()).toBe(0);
    return { takeOver, later: () => withClockAhead(LEASE_MS, takeOver) };
  }

  test.each(['80 s', '-1 hour'])(
    'a step of the clock by %s takes no job from a live worker',
    async (step) => {
      const other = await otherProcess();
      await setClock(step);
      expect(await other.takeOver()).toBe(0);
      await PROCESSING.renew(db.pool, [job]);
      expect(await other.later()).toBe(0);
      expect(await PROCESSING.renew(db.pool, [job])).toEqual([]);
    },
  );

  test.each(['80 s', '-1 hour'])(
    'the job of a dead worker is taken over after a step of the clock by %s',
    async (step) => {
      const other = await otherProcess();
      await setClock(step);
      expect(await other.takeOver()).toBe(0);
      expect(await other.later()).toBe(1);
      expect(await PROCESSING.renew(db.pool, [job])).toEqual([job]);
      expect(await claimJobs(db.pool, 1)).toMatchObject([{ id: job.id }]);
    },
  );

  test('a lease that was renewed while its takeover was decided stays', async () => {
    await setClock('4 s');
    const late = { dead: <T>(leases: readonly T[]) => [...leases] };
    const client = await db.pool.connect();
    const renewing = {
      query: async (...args: Parameters<typeof client.query>) => {
        const result = await Reflect.apply(client.query, client, args);
        await PROCESSING.renew(db.pool, [job]);
        return result;
      },
    };
    expect((await takeOverJobs(renewing as unknown as typeof client, late)).taken).toBe(0);
    client.release();
  });

  test('a queued job does not wait for hours when the clock was set back', async () => {
    await db.pool.query("update processing_jobs set state = 'queued', lease_token = null");
    await setClock('-1 hour');
    await (await otherProcess()).takeOver();
    expect(await untilNextDueMs(db.pool)).toBeLessThanOrEqual(0);
  });
});

describe('the backlog', () => {
  let telemetry: Telemetry;
  beforeAll(async () => {
    telemetry = await testTelemetry();
    await db.pool.query('delete from processing_jobs');
  });
  afterAll(() => telemetry.stop());

  const HOUR_S = 3_600;

  async function oldestAge(): Promise<number | undefined> {
    const text = await (await fetch(telemetry.metricsUrl)).text();
    const found = /^processing_oldest_age_seconds(?:\{[^}]*\})? (\S+)/m.exec(text)?.[1];
    return found === undefined ? undefined : Number(found);
  }

  test('the age of the oldest waiting return is measured, also after failed attempts', async () => {
    const backlog = measureBacklog({ pool: db.pool, meter: telemetry.meter });
    expect(await oldestAge()).toBe(0);
    const shopId = await newShop(db.pool);
    const [older, newer] = [await newReturn(db.pool, shopId), await newReturn(db.pool, shopId)];
    for (const one of [older, newer]) await requestProcessing(db.pool, one);
    await db.pool.query(
      `update processing_jobs set queued_at = now() - interval '1 hour', due_at = now() + interval '1 s'
      where shop_id = $1 and return_id = $2`,
      [shopId, older.id],
    );
    expect(await oldestAge()).toBeGreaterThanOrEqual(HOUR_S);
    await db.pool.query(
      `update processing_jobs set state = 'done', finished_at = now() where return_id = $1`,
      [older.id],
    );
    expect(await oldestAge()).toBeLessThan(HOUR_S);
    await backlog.stop();
  });
});

describe('processing under a clock that is set', () => {
  // A model test over the real code: two workers, a platform that forgets keys, and a network, in any order of events.
  // Whatever the clock of PostgreSQL does, one refund is made; also of a return that was submitted again after the database
  // had lost it.
  const FIXED_SEED = 20_261_128;
  const RUNS = Number(process.env.CLOCK_MODEL_RUNS ?? 100);

  let clocks: Clocks;
  beforeAll(async () => {
    clocks = await startClocks();
  });
  afterAll(() => clocks.close());

  type Act = (world: World) => Promise<void> | void;

  class Command implements fc.AsyncCommand<object, World> {
    readonly #name: string;
    readonly #act: Act;

    constructor(name: string, act: Act) {
      this.#name = name;
      this.#act = act;
    }

    check = () => true;

    async run(_: object, world: World): Promise<void> {
      await this.#act(world);
      expect(world.mostMade).toBeLessThanOrEqual(1);
    }

    toString = () => this.#name;
  }

  const command = <T>(
    name: string,
    from: fc.Arbitrary<T>,
    act: (world: World, value: T) => ReturnType<Act>,
  ) => from.map((value) => new Command(`${name}(${String(value)})`, (world) => act(world, value)));
  const which = fc.nat(1);
  const of = (world: World, nth: number): Worker => {
    const worker = world.workers[nth];
    if (!worker) throw new RangeError('there are two workers');
    return worker;
  };
  const turn = command('turn', which, (world, nth) => of(world, nth).turn());
  const step = command('step', fc.constantFrom(-3_600, -80, 4, 80, 3_600), (_, s) =>
    clocks.step(s),
  );
  const pass = command('pass', fc.constantFrom(1, 4, 12, 40, 80), (world, s) => world.pass(s));
  const COMMANDS = [
    ...[turn, turn, turn, step, pass, pass],
    command('arrive', which, (world, nth) => world.arrive(nth)),
    command('make', which, (world, nth) => world.make(nth)),
    command('answer', which, (world, nth) => world.answer(of(world, nth))),
    command('lose', which, (world, nth) => of(world, nth).resume('answer')),
    command('freeze', fc.tuple(which, fc.nat(16)), (world, [nth, steps]) => {
      of(world, nth).freezeIn = steps;
    }),
    command('thaw', which, (world, nth) => of(world, nth).resume('thaw')),
    command('restart', which, (world, nth) => {
      world.workers[nth] = new Worker(world);
    }),
    command('rewind', fc.boolean(), (world, tellsTimeline) => world.rewind(tellsTimeline)),
    command('settle', which, (world, nth) => world.settle(of(world, nth))),
    command('process again', fc.constant(''), async ({ of }) => {
      await requestProcessing(clocks.pool, of);
    }),
  ];

  async function newWorld(): Promise<World> {
    await clocks.undoSteps();
    await endJobs();
    return World.begin(clocks);
  }

  /** Ends the jobs of an earlier run, which may have failed. */
  const endJobs = () =>
    clocks.pool.query(
      `update processing_jobs set state = 'failed', finished_at = now() where ${OPEN_JOB}`,
    );

  test.each([
    ['fixed', FIXED_SEED],
    ['random', Date.now() % 2 ** 31],
  ])('one refund is made, whatever the clock does (%s seed %i)', async (_, seed) => {
    const property = fc.asyncProperty(
      fc.commands(COMMANDS, { maxCommands: 30, size: 'max' }),
      async (commands) => {
        const real = await newWorld();
        await fc.asyncModelRun(() => ({ model: {}, real }), commands);
        await real.end();
        expect([real.made, real.mostMade]).toEqual([1, 1]);
      },
    );
    await fc.assert(property, { seed, numRuns: RUNS });
  });
});
