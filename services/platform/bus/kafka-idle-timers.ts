import { kafkaPrototype } from './kafka-internals.ts';

/** The method of the library's class that this file replaces. */
interface RequestQueue {
  readonly pending: readonly unknown[];
  scheduleCheckPendingRequests(): void;
}

const patched = new WeakSet<object>();

/**
 * Stops the timers of idle connections. After each check of its pending requests kafkajs 2.2.4 schedules the next
 * check, even when no request is pending. The delay is then negative, which Node treats as 1 ms, so each connection
 * wakes a thousand times a second. A request that has to wait schedules a check itself.
 *
 * Patches the library's own class, once per process. Has no effect if the class differs in a later version.
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
