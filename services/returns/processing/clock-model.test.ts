import { afterAll, beforeAll, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { type Clocks, startClocks } from '../../../test/kit/processing-clock/clocks.ts';
import { Worker } from '../../../test/kit/processing-clock/worker.ts';
import { World } from '../../../test/kit/processing-clock/world.ts';
import { requestProcessing } from '../../../test/kit/services/processing.ts';
import { OPEN_JOB } from './jobs.ts';

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
const step = command('step', fc.constantFrom(-3_600, -80, 4, 80, 3_600), (_, s) => clocks.step(s));
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
])(
  'one refund is made, whatever the clock does (%s seed %i)',
  async (_, seed) => {
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
  },
  120_000,
);
