import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { removeLeftovers, temporaryFolder } from './temporary-folder.ts';

test('creates a new folder at each call', () => {
  const folders = [temporaryFolder(), temporaryFolder()];
  expect(new Set(folders).size).toBe(2);
  for (const folder of folders) {
    expect(existsSync(folder)).toBe(true);
    rmSync(folder, { recursive: true });
  }
});

test('removes only folders of processes that have ended', () => {
  const parent = mkdtempSync(join(tmpdir(), 'rms-leftovers-'));
  const { pid: ended } = spawnSync(process.execPath, ['--version']);
  const kept = [`rms-test-${process.pid}-running`, 'rms-test-noPid', `other-${ended}-x`];
  for (const name of [...kept, `rms-test-${ended}-left`])
    mkdirSync(join(parent, name, 'data'), { recursive: true });

  removeLeftovers(parent);

  expect(existsSync(join(parent, `rms-test-${ended}-left`))).toBe(false);
  expect(kept.filter((name) => existsSync(join(parent, name)))).toEqual(kept);
  rmSync(parent, { recursive: true });
});
