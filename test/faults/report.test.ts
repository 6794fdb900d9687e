import { expect, test } from '@jest/globals';
import { type Finished, pageListOf } from './report.ts';

const row = {
  name: 'dead-endpoints',
  fault: '10 dead endpoints (3 in the short form)',
  mustHold: 'lost 0',
  budgetMs: { full: 1, short: 1 },
  run: () => Promise.reject(new Error('not run')),
};
const counts = { trials: 2, inFlight: 10, lost: 0, duplicates: 1, unexplained: 0 };
const holds: Finished = {
  row,
  result: { ...counts, figures: ['recovery 2.7 s', '10 deliveries'], problems: [], doubts: [] },
  tookMs: 1_000,
};
const run = { seed: 7, full: true, slack: 1, startedAt: new Date(0), tookMs: 120_000 };

test('the page shows the first figure of a row, and the problems of one that does not hold', () => {
  const lost = { ...holds.result, lost: 1, problems: ['1 event lost'] };
  const lines = pageListOf({ ...run, finished: [holds, { ...holds, result: lost }] }).split('\n');
  expect(lines[0]).toBe(
    '1970-01-01, `npm run test:faults -- --full --seed 7`, 2 min, promised times judged × 1:',
  );
  expect(lines.slice(2)).toEqual([
    '- `dead-endpoints` (2 trials, 1 repeats): recovery 2.7 s',
    '- `dead-endpoints` (2 trials, 1 repeats): **does not hold**',
    '',
    '- dead-endpoints: 1 event lost',
    '',
  ]);
});
