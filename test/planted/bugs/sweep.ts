import type { Bug } from '../bug.ts';

/** Bugs in the search for events that Kafka has lost. */
export const sweepBugs: readonly Bug[] = [
  {
    name: 'sweep-ignores-lag',
    promise: 'a backlog is not published again',
    file: 'services/platform/sweep/sweep.ts',
    find: 'if (!(await hasCaughtUp(o, signal))) return;\n    }',
    replace: '}',
    tests: ['services/platform/sweep/sweep.test.ts'],
  },
  {
    name: 'sweep-for-another-group',
    promise: 'what Kafka loses is published again',
    file: 'services/platform/sweep/sweep.ts',
    find: 'hasCaughtUp(o.group, ',
    replace: 'hasCaughtUp(o.source, ',
    tests: ['services/platform/sweep/sweep.test.ts'],
  },
  {
    name: 'list-beyond-what-is-published',
    promise: 'what waits for Kafka is not published by others',
    file: 'services/platform/outbox/published.ts',
    find: '(select min(waits) - 1 from unnest(p.waiting) as waits),',
    replace: '',
    tests: ['services/platform/outbox/published.test.ts'],
  },
  {
    name: 'late-commit-not-listed',
    promise: 'nothing is lost, however long its transaction is open',
    file: 'services/platform/outbox/published.ts',
    find: '     transactions.open_after,\n',
    replace: '',
    tests: ['services/platform/outbox/published.test.ts'],
  },
  {
    name: 'sweep-not-started',
    promise: 'what Kafka loses is published again',
    file: 'services/webhooks/start.ts',
    find: 'return [consumer, sweep, dispatcher.start(),',
    replace: 'void sweep.stop();\n  return [consumer, dispatcher.start(),',
    tests: [],
    row: 'kafka-wiped',
  },
];
