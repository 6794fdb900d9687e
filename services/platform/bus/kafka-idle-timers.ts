import { kafkaPrototype } from './kafka-internals.ts';

/** The method of the library's class that this file replaces. */
interface RequestQueue {
  readonly pending: readonly unknown[];
  scheduleCheckPendingRequests(): void;
}

const patched = new WeakSet<object>();

/**
 * Stops the timers of idle connections. After each check of its pending requests, kafkajs 2.2.4 schedules the next
 * check, even when no request is pending. The delay is then negative, and Node treats it as 1 ms. So each connection
 * wakes the process a thousand times a second. A request that must wait schedules its own check.
 *
 * Patches a class of the library, once per process. Has no effect when a later version has a different class.
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
