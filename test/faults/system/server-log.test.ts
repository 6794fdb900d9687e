import { appendFile, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { followCrashes } from './server-log.ts';

const death = (pid: number) =>
  `2026-11-21 20:00:00.000 UTC [1] LOG:  server process (PID ${pid}) was terminated by signal 11: Segmentation fault`;

let folder = '';
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'rms-server-log-'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

test('reports each crash once, and no other lines', async () => {
  const log = join(folder, 'each');
  await appendFile(log, `${death(1)}\nLOG:  database system is ready\n`);
  const deaths = followCrashes(log);
  expect(await deaths.take()).toEqual([death(1)]);
  expect(await deaths.take()).toEqual([]);
  await appendFile(log, `${death(2)}\n`);
  expect(await deaths.take()).toEqual([death(2)]);
});

test('leaves out the processes that the suite killed, and reports earlier crashes', async () => {
  const log = join(folder, 'own');
  await appendFile(log, `${death(1)}\n`);
  const deaths = followCrashes(log);
  await deaths.look();
  await appendFile(log, `${death(2)}\n`);
  await deaths.skip();
  await appendFile(log, `${death(3)}\n`);
  expect(await deaths.take()).toEqual([death(1), death(3)]);
});
