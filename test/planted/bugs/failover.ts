import type { Bug } from '../bug.ts';

const LOST_COMMITS = ['services/returns/processing/lost-commits.test.ts'];

/** Bugs that show only after the promotion of a standby that had not got the last commits. */
export const failoverBugs: readonly Bug[] = [
  {
    name: 'key-without-random-value',
    promise: 'a return with the id of a lost return gets its own effects',
    file: 'services/returns/processing/plan.ts',
    find: '...(nonce === null ? [] : [nonce])',
    replace: '...(nonce === null || nonce !== null ? [] : [nonce])',
    tests: LOST_COMMITS,
  },
  {
    name: 'key-planned-again',
    promise: 'an effect keeps the key that was planned first',
    file: 'services/returns/processing/effect-store.ts',
    find: '{ ...step, key: row.key, ...atPlan,',
    replace: '{ ...step, ...atPlan,',
    tests: LOST_COMMITS,
  },
];
