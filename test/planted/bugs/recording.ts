import type { Bug } from '../bug.ts';

/** Bugs in the recording of results. */
export const recordingBugs: readonly Bug[] = [
  {
    name: 'result-dropped',
    promise: 'every result is recorded: no finished delivery stays in the queue',
    file: 'services/webhooks/delivery/results/result-writer.ts',
    find: 'const batch = this.#waiting.splice(0, MAX_BATCH).map((one) => this.#withFailing(one));',
    replace:
      'const batch = this.#waiting.splice(0, MAX_BATCH).map((one) => this.#withFailing(one)).filter(() => Math.random() > 0.02);',
    tests: ['services/webhooks/fan-out/payloads.test.ts'],
    row: 'kill-worker',
  },
  {
    name: 'outage-swallowed',
    promise: 'an outage of the database loses no result',
    file: 'services/webhooks/delivery/results/result-writer.ts',
    find: 'if (!isOutage(error) || performance.now() >= this.#giveUpAt) return false;',
    replace: 'if (!isOutage(error) || performance.now() >= 0) return false;',
    tests: ['services/webhooks/delivery/results/result-writer.test.ts'],
    row: 'postgres-restart',
  },
  {
    name: 'no-fencing',
    promise: 'results of a process that has lost its lease are rejected',
    file: 'services/webhooks/delivery/results/write-results.ts',
    find: "', o.attemptResults)}\n    join leased on leased.name = g.lease and leased.token = g.token",
    replace: "', o.attemptResults)}\n    join leased on leased.name = g.lease",
    tests: ['services/webhooks/delivery/results/write-results.test.ts'],
    row: 'frozen-worker',
  },
  {
    name: 'failure-recorded-as-delivered',
    promise: 'a committed event is delivered again until your endpoint answers 2xx',
    file: 'services/webhooks/delivery/attempt/runner.ts',
    find: "if (kind === 'delivered') return",
    replace: "if (kind === 'delivered' || kind === 'timeout') return",
    tests: ['services/webhooks/delivery/results/result-writer.test.ts'],
  },
  {
    name: 'success-does-not-end-failures',
    promise: 'one success resets the count of failures',
    file: 'services/webhooks/delivery/results/count-failures.ts',
    find: 'failures = 0;\n      failingSinceMs = null;',
    replace: 'failures += 0;',
    tests: ['services/webhooks/delivery/attempt/retries.test.ts'],
  },
  {
    name: 'answer-of-an-earlier-round-ends-a-replay',
    promise: 'a replay is sent, whatever the result of an older attempt',
    file: 'services/webhooks/delivery/results/write-results.ts',
    find: "and q.queued_at = g.round and (g.ended = 'delivered'",
    replace: "and (g.ended = 'delivered'",
    tests: ['services/webhooks/delivery/results/write-results.test.ts'],
  },
];
