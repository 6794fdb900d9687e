import type { Bug } from '../bug.ts';

/** Bugs between a change and the bus. */
export const outboxBugs: readonly Bug[] = [
  {
    name: 'appended-in-another-order',
    promise: 'events of one transaction are published in their order',
    file: 'services/platform/outbox/append.ts',
    find: '    order by n\n  ) sorted',
    replace: '    order by n desc\n  ) sorted',
    tests: ['services/platform/outbox/kills.test.ts'],
  },
  {
    name: 'progress-before-the-acknowledgement',
    promise: 'an event is published again until the bus has acknowledged it',
    file: 'services/platform/outbox/relay.ts',
    find: 'await o.bus.publish(o.topic, records);',
    replace: 'void o.bus.publish(o.topic, records).catch(() => {});',
    tests: ['services/platform/outbox/kills.test.ts', 'services/platform/outbox/relay.test.ts'],
  },
  {
    name: 'commit-not-notified',
    promise: 'a change is published at once, whichever process relays it',
    file: 'services/platform/outbox/notify.ts',
    find: 'if (elsewhere.length === 0) return;',
    replace: 'if (elsewhere.length >= 0) return;',
    tests: ['services/platform/outbox/publisher.test.ts'],
  },
  {
    name: 'published-before-the-commit',
    promise: 'an event that was rolled back is never published',
    file: 'services/platform/outbox/append.ts',
    find: "await tx.query(named('outbox-append', appendStatement(encoded, trace)));",
    replace:
      "await tx.query(named('outbox-append', appendStatement(encoded, trace)));\n  await tx.query('commit');",
    tests: ['services/platform/outbox/relay.test.ts'],
  },
];
