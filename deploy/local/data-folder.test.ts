import { spawn } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { until } from '../../test/support/until.ts';
import { claimDataFolder } from './data-folder.ts';

describe('a data folder', () => {
  let folder: string;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'rms-data-'));
  });
  afterEach(() => rm(folder, { recursive: true, force: true }));

  test('is refused while another process uses it, and free once that was killed', async () => {
    const script = `
      import { claimDataFolder } from ${JSON.stringify(new URL('./data-folder.ts', import.meta.url).href)};
      await claimDataFolder(${JSON.stringify(folder)});
      process.stdout.write('claimed');
      setInterval(() => {}, 1_000);`;
    const other = spawn('node_modules/.bin/node', ['--input-type=module', '-e', script], {
      stdio: ['ignore', 'pipe', 'inherit'],
      env: { ...process.env, NODE_OPTIONS: '' },
    });
    const gone = new Promise((done) => other.once('exit', done));
    try {
      let said = '';
      other.stdout.on('data', (chunk) => {
        said += chunk;
      });
      await until(() => said === 'claimed');
      await expect(claimDataFolder(folder)).rejects.toThrow(`in use by process ${other.pid}`);
    } finally {
      other.kill('SIGKILL');
      await gone;
    }
    await (await claimDataFolder(folder)).stop();
  });

  test('is not refused for a process that has the number of a dead one', async () => {
    await writeFile(join(folder, 'in-use-by'), `${process.ppid} node long-gone.ts\n`);
    const claim = await claimDataFolder(folder);
    expect(await readFile(join(folder, 'in-use-by'), 'utf8')).toMatch(`${process.pid} `);
    await claim.stop();
  });
});
