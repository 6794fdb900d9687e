import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { freePorts } from './free-ports.ts';
import { requireNoRunningStack, writeStackFile } from './stack-file.ts';

describe('an existing stack file', () => {
  let folder: string;
  let path: string;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'rms-stack-file-'));
    path = join(folder, 'stack.json');
  });
  afterEach(() => rm(folder, { recursive: true, force: true }));

  /** The id of another running process. */
  const pid = process.ppid;

  test('of a running stack prevents the start of a second stack', async () => {
    const [port = 0] = await freePorts(1);
    const control = createServer().listen(port, '127.0.0.1');
    await once(control, 'listening');
    await writeStackFile(path, { pid, control_url: `http://127.0.0.1:${port}` });
    await expect(requireNoRunningStack(path)).rejects.toThrow(`process ${pid}`);
    control.close();
  });

  test('is not overwritten when it is another kind of file', async () => {
    await writeFile(path, 'a diary');
    await expect(requireNoRunningStack(path)).rejects.toThrow('is not a stack file');
    expect(await readFile(path, 'utf8')).toBe('a diary');
  });

  test('is replaced when another process has reused its process id', async () => {
    const [port = 0] = await freePorts(1);
    await writeStackFile(path, { pid, control_url: `http://127.0.0.1:${port}` });
    await expect(requireNoRunningStack(path)).resolves.toBeUndefined();
  });
});
