import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, expect, test } from '@jest/globals';
import { type NodeProcess, startNode } from '../../test/kit/process.ts';
import { until } from '../../test/kit/until.ts';
import { freePort } from '../local/free-ports.ts';

const target = createServer((req, res) => res.end(`asked for ${req.headers.host}`));
let forwarder: NodeProcess | undefined;

afterAll(async () => {
  await forwarder?.kill();
  target.closeAllConnections();
  target.close();
});

test('a port passes connections on, with the name by which it was asked', async () => {
  target.listen(0, '127.0.0.1');
  await once(target, 'listening');
  const port = await freePort();
  const to = `127.0.0.1:${(target.address() as AddressInfo).port}`;
  const args = ['deploy/demo/forward.ts', `${port}`, to];
  forwarder = startNode({ name: 'forward', args, env: {} });
  const ask = async () => (await fetch(`http://127.0.0.1:${port}/`)).text();
  await until(
    () =>
      ask().then(
        () => true,
        () => false,
      ),
    30_000,
  );
  expect(await ask()).toBe(`asked for 127.0.0.1:${port}`);
});
