import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { openMemory, PORT_NAMES } from './memory.ts';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'rms-memory-'));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

describe('the stored state of a stack', () => {
  test('has different ports, including those of the metrics, which stay the same after a restart', async () => {
    const { ports } = (await openMemory(folder, {})).memory;
    expect(Object.keys(ports).sort()).toEqual([...PORT_NAMES].sort());
    expect(new Set(Object.values(ports)).size).toBe(PORT_NAMES.length);
    expect((await openMemory(folder, {})).memory.ports).toEqual(ports);
  });

  test('a chosen port overrides the stored one and is stored', async () => {
    await openMemory(folder, { gateway: 28_080 });
    expect((await openMemory(folder, {})).memory.ports.gateway).toBe(28_080);
  });

  test('ports that are missing in an older file are added', async () => {
    const { memory } = await openMemory(folder, {});
    const { carts: _, 'carts-metrics': __, ...others } = memory.ports;
    const path = join(folder, 'local.json');
    const stored = JSON.parse(await readFile(path, 'utf8'));
    await writeFile(path, JSON.stringify({ ...stored, ports: others }));
    const { ports } = (await openMemory(folder, {})).memory;
    expect(ports).toMatchObject(others);
    expect(new Set(Object.values(ports)).size).toBe(PORT_NAMES.length);
  });
});
