import { kafkaPrototype } from './kafka-internals.ts';

/** The method of the library's class that is replaced. */
interface RequestQueue {
  readonly pending: readonly unknown[];
  scheduleCheckPendingRequests(): void;
}

const patched = new WeakSet<object>();

/**
 * Stops the timers of idle connections. After each check of its pending requests kafkajs 2.2.4 schedules
 * the next one, also when nothing is pending, and then with a negative delay, which Node takes for 1 ms:
 * a thousand wake-ups a second for each connection. A request that has to wait schedules a check itself.
 *
 * Changes the library's own class, once a process. Without effect should it look different one day.
 */
export function stopIdleTimers(): void {
  const queue = kafkaPrototype('kafkajs/src/network/requestQueue/index.js', isRequestQueue);
  if (!queue || patched.has(queue)) return;
  patched.add(queue);
  const { scheduleCheckPendingRequests } = queue;
  queue.scheduleCheckPendingRequests = function (this: RequestQueue) {
    if (this.pending.length > 0) scheduleCheckPendingRequests.call(this);
  };
}

function isRequestQueue(value: object): value is RequestQueue {
  return (
    'scheduleCheckPendingRequests' in value &&
    typeof value.scheduleCheckPendingRequests === 'function'
  );
}
