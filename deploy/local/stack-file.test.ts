import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { freePorts } from './free-ports.ts';
import { refuseRunningStack, writeStackFile } from './stack-file.ts';

describe('a stack file that is there already', () => {
  let folder: string;
  let path: string;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'rms-stack-file-'));
    path = join(folder, 'stack.json');
  });
  afterEach(() => rm(folder, { recursive: true, force: true }));

  /** The number of a process that lives and is not this one. */
  const pid = process.ppid;

  test('of a running stack refuses another', async () => {
    const [port = 0] = await freePorts(1);
    const control = createServer().listen(port, '127.0.0.1');
    await once(control, 'listening');
    await writeStackFile(path, { pid, control_url: `http://127.0.0.1:${port}` });
    await expect(refuseRunningStack(path)).rejects.toThrow(`process ${pid}`);
    control.close();
  });

  test('that is something else is left alone', async () => {
    await writeFile(path, 'a diary');
    await expect(refuseRunningStack(path)).rejects.toThrow('is no stack file');
    expect(await readFile(path, 'utf8')).toBe('a diary');
  });

  test('whose process number belongs to something else by now is replaced', async () => {
    const [port = 0] = await freePorts(1);
    await writeStackFile(path, { pid, control_url: `http://127.0.0.1:${port}` });
    await expect(refuseRunningStack(path)).resolves.toBeUndefined();
  });
});
