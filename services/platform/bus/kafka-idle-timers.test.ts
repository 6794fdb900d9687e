import { createRequire } from 'node:module';
import { expect, jest, test } from '@jest/globals';
import { stopIdleTimers } from './kafka-idle-timers.ts';

/** The library's request queue of one connection. */
function requestQueue() {
  const RequestQueue = createRequire(import.meta.url)('kafkajs/src/network/requestQueue/index.js');
  const logger = { debug: () => {} };
  const queue = new RequestQueue({ maxInFlightRequests: 1, requestTimeout: 1_000, logger });
  const sent: number[] = [];
  const push = (correlationId: number) =>
    queue.push({
      entry: { correlationId, apiName: 'test', resolve: () => {}, reject: () => {} },
      expectResponse: true,
      sendRequest: () => sent.push(correlationId),
    });
  const answer = (correlationId: number) =>
    queue.fulfillRequest({ correlationId, payload: Buffer.alloc(0), size: 0 });
  return { queue, sent, push, answer };
}

test('a connection without pending requests has no timer', () => {
  stopIdleTimers();
  jest.useFakeTimers();
  try {
    const { push, answer } = requestQueue();
    push(1);
    answer(1);
    expect(jest.getTimerCount()).toBe(0);
  } finally {
    jest.useRealTimers();
  }
});

test('a waiting request is sent after the response to the request before it', () => {
  stopIdleTimers();
  const { sent, push, answer } = requestQueue();
  push(1);
  push(2);
  expect(sent).toEqual([1]);
  answer(1);
  expect(sent).toEqual([1, 2]);
  answer(2);
});

test('a request that waits for the end of a throttle is sent then', () => {
  stopIdleTimers();
  jest.useFakeTimers();
  try {
    const { queue, sent, push } = requestQueue();
    queue.maybeThrottle(500);
    push(1);
    expect(sent).toEqual([]);
    jest.advanceTimersToNextTimer();
    expect(sent).toEqual([1]);
  } finally {
    jest.useRealTimers();
  }
});
