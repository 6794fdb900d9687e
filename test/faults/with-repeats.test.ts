import { expect, test } from '@jest/globals';
import type { Finished } from './report.ts';
import { withRepeats } from './with-repeats.ts';

const row = {
  name: 'row',
  fault: '',
  mustHold: '',
  budgetMs: { short: 1, full: 1 },
  runSeparately: () => Promise.reject(new Error('not asked for')),
};

/** Runs a row with these results, one after another. Returns the number of runs and the final result. */
async function judged(runs: { problems?: string[]; doubts?: string[] }[], full = false) {
  let count = 0;
  const { result, repeats } = await withRepeats(
    { full },
    () => {},
    async (run): Promise<Finished> => {
      count = run;
      const none = { trials: 1, inFlight: 1, lost: 0, duplicates: 0, unexplained: 0 };
      const wrong = { problems: [], doubts: [], ...runs[run - 1] };
      return { row, result: { ...none, figures: ['f'], ...wrong }, tookMs: 1 };
    },
  );
  const { problems, doubts, figures } = result;
  return { count, problems, doubts, figures, ...(repeats && { repeats }) };
}

test('one run is enough without problems and doubts', async () => {
  expect(await judged([{}])).toEqual({ count: 1, problems: [], doubts: [], figures: ['f'] });
});

test('a broken promise is final', async () => {
  const run = { problems: ['lost'], doubts: ['late'] };
  expect(await judged([run, {}])).toEqual({ count: 1, ...run, figures: ['f'] });
});

test('a row in doubt passes when two of three runs hold, and its figures report the repeats', async () => {
  expect(await judged([{ doubts: ['late by 1 s'] }, {}, {}])).toEqual({
    count: 3,
    problems: [],
    doubts: [],
    figures: ['f', '2 of 3 tries held, others: late by 1 s'],
    repeats: 2,
  });
});

test('a row in doubt fails when only one of three runs holds', async () => {
  const late = { doubts: ['late'] };
  expect(await judged([late, {}, late])).toMatchObject({ count: 3, doubts: ['late'], repeats: 2 });
  expect(await judged([late, late])).toMatchObject({ count: 2, doubts: ['late'], repeats: 1 });
});

test('a broken promise in a repeat is final', async () => {
  const late = { doubts: ['late'] };
  expect(await judged([late, { problems: ['lost'] }])).toMatchObject({ problems: ['lost'] });
});

test('a doubt is final in the full form, which has enough trials', async () => {
  expect(await judged([{ doubts: ['late'] }], true)).toMatchObject({ count: 1, doubts: ['late'] });
});
