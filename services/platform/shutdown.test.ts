import { expect, test } from '@jest/globals';
import { silentLogger } from '../../test/kit/services/telemetry.ts';
import { shutDown } from './shutdown.ts';

test('later steps run after a failed one', async () => {
  const done: string[] = [];
  await shutDown(silentLogger(), [
    async () => {
      done.push('first');
      throw new Error('no');
    },
    () => {
      throw new Error('no');
    },
    async () => void done.push('last'),
  ]);
  expect(done).toEqual(['first', 'last']);
});
