import type { Bug } from '../bug.ts';

const FAILOVER = ['services/platform/postgres/outage.test.ts'];
const LOST_COMMITS = ['services/returns/processing/unknown-outcome.test.ts'];

/** Bugs that show only after the promotion of a standby that had not got the last commits. */
export const failoverBugs: readonly Bug[] = [
  {
    name: 'key-without-random-value',
    promise: 'a return with the id of a lost return gets its own effects',
    file: 'services/returns/processing/plan.ts',
    find: 'returnId, nonce, kind]',
    replace: "returnId, nonce === '' ? nonce : '', kind]",
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
  {
    name: 'ids-without-gap',
    promise: 'ids, positions and tokens of lost commits are not given again',
    file: 'services/platform/migrations/failover/0001_server_timeline.sql',
    find: 'drawn.at + least(1000000,',
    replace: 'drawn.at + least(0,',
    tests: FAILOVER,
  },
  {
    name: 'connection-without-step',
    promise: 'nothing is written on a new timeline before the step',
    file: 'services/platform/postgres/database-client.ts',
    find: 'await this.query(STEP_TO_TIMELINE);',
    replace: "await this.query(STEP_TO_TIMELINE && '');",
    tests: FAILOVER,
  },
  {
    name: 'revision-without-step',
    promise: 'after a promotion a return has a revision above all that receivers saw',
    file: 'services/returns/store/next-revision.ts',
    find: '(select revision_floor from server_timeline)',
    replace: '(select 0 from server_timeline)',
    tests: FAILOVER,
  },
];
