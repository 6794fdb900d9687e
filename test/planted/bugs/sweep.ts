import type { Bug } from '../bug.ts';

/** Bugs in the search for events that Kafka has lost. */
export const sweepBugs: readonly Bug[] = [
  {
    name: 'sweep-ignores-lag',
    promise: 'a backlog is not published again',
    file: 'services/platform/outbox/sweep.ts',
    find: 'if (!(await hasCaughtUp(o, signal))) return;\n    }',
    replace: '}',
    tests: ['services/platform/outbox/sweep.test.ts'],
  },
  {
    name: 'sweep-for-another-group',
    promise: 'events that Kafka loses are published again',
    file: 'services/platform/outbox/sweep.ts',
    find: 'hasCaughtUp(o.group, ',
    replace: 'hasCaughtUp(o.source, ',
    tests: ['services/platform/outbox/sweep.test.ts'],
  },
  {
    name: 'list-beyond-what-is-published',
    promise: 'events that wait for Kafka are not published by the sweep',
    file: 'services/platform/outbox/routes.ts',
    find: '(select min(waits) - 1 from unnest(p.waiting) as waits),',
    replace: '',
    tests: ['services/platform/outbox/published.test.ts'],
  },
  {
    name: 'late-commit-not-listed',
    promise: 'no event is lost, however long its transaction is open',
    file: 'services/platform/outbox/routes.ts',
    find: '     transactions.open_after,\n',
    replace: '',
    tests: ['services/platform/outbox/published.test.ts'],
  },
  {
    name: 'sweep-not-started',
    promise: 'events that Kafka loses are published again',
    file: 'services/webhooks/start.ts',
    find: 'return [consumer, sweep, dispatcher.start(),',
    replace: 'void sweep.stop();\n  return [consumer, dispatcher.start(),',
    tests: [],
    row: 'kafka-wiped',
  },
];
