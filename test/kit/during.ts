import { afterAll, beforeAll } from '@jest/globals';
import { type Receiver, startReceiver } from './webhooks/receiver.ts';

/**
 * Starts something before the tests of a file or of a `describe`, and stops it after them.
 *
 * @returns what was started. Call it in tests and hooks only.
 */
export function during<T extends { stop(): Promise<unknown> }>(start: () => Promise<T>): () => T {
  let started: T | undefined;
  beforeAll(async () => {
    started = await start();
  });
  afterAll(() => started?.stop());
  return () => {
    if (!started) throw new Error('it starts before the tests');
    return started;
  };
}

/** A receiver during the tests of a file. */
export function receiverForTests(): Pick<Receiver, 'url' | 'received' | 'answer'> {
  const receiver = during(() => startReceiver());
  return {
    get url() {
      return receiver().url;
    },
    get received() {
      return receiver().received;
    },
    get answer() {
      return receiver().answer;
    },
    set answer(answer: Receiver['answer']) {
      receiver().answer = answer;
    },
  };
}
