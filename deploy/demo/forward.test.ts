import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, expect, test } from '@jest/globals';
import { type NodeProcess, startNode } from '../../test/kit/process.ts';
import { until } from '../../test/kit/until.ts';
import { freePort } from '../local/free-ports.ts';

const target = createServer((req, res) => res.end(`host ${req.headers.host}`));
let forwarder: NodeProcess | undefined;

afterAll(async () => {
  await forwarder?.kill();
  target.closeAllConnections();
  target.close();
});

test('a port forwards connections, and the server sees the host name that the client used', async () => {
  target.listen(0, '127.0.0.1');
  await once(target, 'listening');
  const port = await freePort();
  const to = `127.0.0.1:${(target.address() as AddressInfo).port}`;
  const args = ['deploy/demo/forward.ts', `${port}`, to];
  forwarder = startNode({ name: 'forward', args, env: {} });
  const fetchHost = async () => (await fetch(`http://127.0.0.1:${port}/`)).text();
  await until(
    () =>
      fetchHost().then(
        () => true,
        () => false,
      ),
    30_000,
  );
  expect(await fetchHost()).toBe(`host 127.0.0.1:${port}`);
});
