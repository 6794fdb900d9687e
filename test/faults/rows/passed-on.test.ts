import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { RESULTS_NOT_RECORDED } from '../../../services/webhooks/delivery/dispatcher.ts';
import { isPassedOn } from './passed-on.ts';

const line = (time: string, attempts: number): string =>
  JSON.stringify({ time, attempts, msg: RESULTS_NOT_RECORDED });

let folder = '';
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'rms-passed-on-'));
  const first = [line('2026-11-20T09:00:00.000Z', 5), line('2026-11-20T10:00:01.000Z', 2)];
  await writeFile(join(folder, 'webhooks-1.log'), `${first.join('\n')}\n`);
  // A killed process may leave an incomplete last line.
  const second = [line('2026-11-20T10:00:02.000Z', 1), line('2026-11-20T10:00:03.000Z', 9)];
  await writeFile(join(folder, 'webhooks-2.log'), second.join('\n').slice(0, -1));
});
afterAll(() => rm(folder, { recursive: true }));

test.each([
  [0, false],
  [3, true],
  [4, false],
])(
  '%i repeats are explained by three attempts that others took over: %s',
  async (repeats, expected) => {
    const since = Date.parse('2026-11-20T10:00:00.000Z');
    expect(await isPassedOn({ folder }, since, repeats, 50)).toBe(expected);
  },
);
