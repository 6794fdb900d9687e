import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { promisify } from 'node:util';
import { expect, test } from '@jest/globals';
import { BLOCK, freePorts } from './free-ports.ts';

const run = promisify(execFile);

/** Another process that reserves ports. It exits when the test closes its standard input. */
const OTHER = `
  const { freePorts } = await import('${new URL('free-ports.ts', import.meta.url).href}');
  console.log(JSON.stringify(await freePorts(40)));
  process.stdin.resume();
`;

test('two running processes never get the same port, even when it is not in use', async () => {
  const others = Array.from({ length: 4 }, () =>
    run(process.execPath, ['--input-type=module', '-e', OTHER]),
  );
  const own = await freePorts(40);
  const first = await Promise.all(others.map(({ child }) => once(child.stdout ?? fail(), 'data')));
  const ports = [...own, ...first.flatMap(([data]) => JSON.parse(String(data)))];
  for (const { child } of others) child.stdin?.end();
  await Promise.all(others);
  expect(ports).toHaveLength(200);
  expect(new Set(ports).size).toBe(200);
});

test('returns each port once, and no port that is in `taken` or in use', async () => {
  const first = await freePorts(20);
  // The next two ports must be in the block of the last one, because other processes may listen in the next block.
  while ((first.at(-1) ?? 0) % BLOCK > BLOCK - 3) first.push(...(await freePorts(1)));
  const next = (first.at(-1) ?? 0) + 1;
  const server = createServer().listen(next + 1, '127.0.0.1');
  await once(server, 'listening');
  const given = (await Promise.all([freePorts(20, [next]), freePorts(20)])).flat();
  expect(given).not.toContain(next);
  expect(given).not.toContain(next + 1);
  expect(new Set([...first, ...given]).size).toBe(first.length + 40);
  await new Promise((closed) => server.close(closed));
});

function fail(): never {
  throw new Error('the process has no output');
}
