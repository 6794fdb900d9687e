import type { Bug } from '../bug.ts';

/** Bugs between Kafka and the handler. */
export const consumerBugs: readonly Bug[] = [
  {
    name: 'offset-before-commit',
    promise: 'a record is read again until it is handled',
    file: 'services/platform/kafka/subscription.ts',
    find: 'state.open.add(received);',
    replace: '',
    tests: ['services/platform/kafka/consume.test.ts'],
    row: 'kill-consumer',
  },
  {
    name: 'duplicates-not-remembered',
    promise: 'a repeated event has its effect once',
    file: 'services/platform/consumer/consumer.ts',
    find: 'return once.filter((event) => fresh.has(event.eventId));',
    replace: 'return fresh.size < 0 ? [] : once;',
    tests: ['services/platform/consumer/consumer.test.ts'],
  },
  {
    name: 'outage-stores-poison-records',
    promise: 'an outage creates no poison records',
    file: 'services/platform/consumer/consumer.ts',
    find: 'return isOutage(error) || isUnavailable(error);',
    replace: 'return isOutage(error) && isUnavailable(error);',
    tests: ['services/platform/consumer/consumer.test.ts'],
    row: 'database-refusals',
  },
  {
    name: 'order-of-a-key-broken',
    promise: 'events of one return are handled in their order',
    file: 'services/platform/bus/key-queues.ts',
    find: 'if (this.#busy.has(key)) continue;',
    replace: '',
    tests: ['services/platform/kafka/consume.test.ts'],
  },
  {
    name: 'handled-before-its-effect',
    promise: 'an event is remembered in the transaction of its effect',
    file: 'services/platform/consumer/consumer.ts',
    find: 'remember(tx, o.group, events), o.lock',
    replace: 'remember(o.pool, o.group, events), o.lock',
    tests: ['services/platform/consumer/consumer.test.ts'],
  },
  {
    name: 'forged-event-handled',
    promise: 'only events of our own processes are handled',
    file: 'services/platform/bus/signed-bus.ts',
    find: "return check === 'valid';",
    replace: "return check !== 'expired';",
    tests: ['services/platform/bus/signed-bus.test.ts'],
  },
];
