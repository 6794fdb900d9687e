import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { Agent, createServer, request, type ServerResponse } from 'node:http';
import { connect as connectHttp2 } from 'node:http2';
import { type AddressInfo, connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { checkEdge } from '../../deploy/check/edge.ts';
import { startTestGateway, type TestGateway } from '../kit/gateway/test-gateway.ts';
import { until } from '../kit/until.ts';
import { type Edge, startEdge } from './edge-process.ts';

// The edge of `deploy/components/edge`, in front of a gateway.

let under: TestGateway;
let edge: Edge;
beforeAll(async () => {
  under = await startTestGateway({ FAILED_CREDENTIALS_PER_MINUTE: 60 });
  edge = await startEdge({ gatewayPort: under.gateway.port });
});
afterAll(async () => {
  await edge?.stop();
  await under?.stop();
});

interface Received {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: string;
}

/** Sends a request as a client with this address. */
function send(
  port: number,
  o: {
    readonly from?: string;
    readonly path: string;
    readonly headers?: Readonly<Record<string, string>>;
    readonly method?: string;
    readonly body?: Buffer;
    readonly agent?: Agent;
  },
): Promise<Received> {
  const { from = '127.0.0.1', path, headers = {}, method = 'GET', agent } = o;
  return new Promise((resolve, reject) => {
    const to = { host: '127.0.0.1', port, localAddress: from, path, headers, method };
    const req = request({ ...to, ...(agent && { agent }) }, async (res) => {
      let body = '';
      for await (const part of res.setEncoding('utf8')) body += part;
      resolve({ status: res.statusCode ?? 0, headers: res.headers, body });
    });
    req.once('error', reject).end(o.body);
  });
}

const WEBHOOKS = '/api/2026-10/webhooks';

describe('through the edge', () => {
  test.each([
    ['a read', WEBHOOKS, {}],
    ['an unknown path with encoded characters', '/api/2026-10/%2e%2e/a%2Fb', {}],
    ['a path with #', '/api/2026-10/a#b', {}],
    ['a wrong key', WEBHOOKS, { 'x-authorization': 'wrong' }],
    ['a head of 15 KiB', WEBHOOKS, { 'x-large': 'x'.repeat(15_000) }],
  ])('%s has the same answer as without it', async (_name, path, more) => {
    const headers = { 'x-authorization': under.key, 'x-request-id': 'same', ...more };
    const [direct, through] = await Promise.all(
      [under.gateway.port, edge.port].map((port) => send(port, { path, headers })),
    );
    const ofConnection = ['date', 'connection', 'keep-alive', 'ratelimit'];
    const same = Object.entries(direct?.headers ?? {}).filter(
      ([name]) => !ofConnection.includes(name),
    );
    expect(through).toMatchObject({ ...direct, headers: Object.fromEntries(same) });
  });

  test('a body of 32 MiB arrives, and one byte more is the API to refuse', async () => {
    const statusOf = async (bytes: number) => {
      const item = '{"items":[{"line_item_id":21,"disposition_note":"x"}]}';
      const { status } = await send(edge.port, {
        path: '/api/2026-10/dispositioning/assess',
        method: 'POST',
        headers: { 'x-authorization': under.key, 'content-type': 'application/json' },
        body: Buffer.from(item.padEnd(bytes, ' ')),
      });
      return status;
    };
    const most = 32 * 1024 * 1024;
    expect(await statusOf(most)).toBe(200);
    expect(await statusOf(most + 1)).toBe(413);
  });

  test('the gateway counts the address of the client, whatever it claims', async () => {
    const wrong = (n: number, from: string) =>
      send(edge.port, {
        path: WEBHOOKS,
        from,
        headers: { 'x-authorization': `wrong-${n}`, 'x-forwarded-for': `203.0.113.${n}` },
      });
    const statuses = new Set<number>();
    for (let n = 0; n < 100; n += 1) statuses.add((await wrong(n, '127.0.0.3')).status);
    expect([...statuses]).toEqual([401, 429]);
    expect((await wrong(1, '127.0.0.4')).status).toBe(401);
  });
});

test('without a gateway the edge answers like the API, and says when to come back', async () => {
  const alone = await startTestGateway();
  const front = await startEdge({ gatewayPort: alone.gateway.port });
  await alone.stop();
  const { status, headers, body } = await send(front.port, {
    path: WEBHOOKS,
    headers: { 'x-request-id': 'mine' },
  });
  await front.stop();
  expect(status).toBe(503);
  expect(headers).toMatchObject({
    'content-type': 'application/json',
    'retry-after': expect.stringMatching(/^[1-9]/),
    'x-request-id': expect.stringMatching(/./),
  });
  expect(JSON.parse(body)).toEqual({ message: expect.any(String), errors: {} });
});

const WEAK = `
defaults
  mode http
  timeout connect 2s
  timeout client 60s
  timeout server 60s
frontend public
  bind "\${EDGE_BIND}"
  default_backend gateway
backend gateway
  server gateway "\${EDGE_GATEWAY}"
`;

describe('the check of an edge', () => {
  const missing = async (url: string, from: string): Promise<string[]> => {
    const found: string[] = [];
    for await (const { name, isMet } of checkEdge(url, from)) if (!isMet) found.push(name);
    return found;
  };

  test('finds nothing missing in ours', async () => {
    expect(await missing(edge.url, '127.0.0.5')).toEqual([]);
  }, 120_000);

  test('of an address where nothing answers ends', async () => {
    const gone = await startEdge({ gatewayPort: under.gateway.port });
    await gone.stop();
    await expect(missing(gone.url, '127.0.0.7')).rejects.toThrow('does not answer');
  });

  test('names what a weak one lacks', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'edge-'));
    const config = join(folder, 'weak.cfg');
    await writeFile(config, WEAK);
    const weak = await startEdge({ gatewayPort: under.gateway.port, config });
    const found = await missing(weak.url, '127.0.0.6');
    await weak.stop();
    await rm(folder, { recursive: true });
    expect(found).toEqual(
      expect.arrayContaining([
        'half-sent heads end',
        'connections of one address are bounded',
        'requests without a credential are bounded',
        'X-Forwarded-For cannot be forged',
      ]),
    );
  }, 120_000);
});

test('behind a balancer each client that it names has its own limits', async () => {
  const balancer = '127.0.0.30';
  const front = await startEdge({ gatewayPort: under.gateway.port, balancers: balancer });
  const ask = async (client: string) => {
    const headers = { 'x-authorization': under.key, 'x-forwarded-for': client };
    const path = '/api/2026-10/none';
    return (await send(front.port, { path, headers, from: balancer })).status;
  };
  // Answers with 4xx are counted for ten seconds: until one is refused, or all that could be were not.
  const statuses = new Set<number>();
  for (let n = 0; n < 20 && !statuses.has(429); n += 1) {
    const round = await Promise.all(Array.from({ length: 200 }, () => ask('203.0.113.1')));
    for (const status of round) statuses.add(status);
  }
  expect([...statuses]).toEqual([404, 429]);
  expect(await ask('203.0.113.2')).toBe(404);
  await front.stop();
}, 60_000);

test('half-sent bodies over HTTP/2 take less memory than the manifest gives', async () => {
  const sessions = Array.from({ length: 390 }, () => {
    const localAddress = '127.0.0.9';
    const session = connectHttp2(edge.url, {
      createConnection: () => connect({ host: '127.0.0.1', port: edge.port, localAddress }),
    });
    return session.on('error', () => {});
  });
  for (const session of sessions) {
    for (let n = 0; n < 100; n += 1) {
      const headers = { ':method': 'POST', ':path': WEBHOOKS, 'content-length': '900' };
      session
        .request(headers)
        .on('error', () => {})
        .write('a');
    }
  }
  // Those that were not refused wait for their bodies, until the edge has waited long enough.
  const { status } = await send(edge.port, {
    path: WEBHOOKS,
    method: 'POST',
    headers: { 'x-authorization': under.key, 'content-length': '900' },
    body: Buffer.from('a'),
  }).catch(() => ({ status: 408 }));
  expect(status).toBe(408);
  for (const session of sessions) session.destroy();
  expect(edge.peakMiB()).toBeLessThan(400);
}, 60_000);

describe('in front of a gateway of the test', () => {
  const pending: ServerResponse[] = [];
  const gateway = createServer(({ url = '' }, res) => {
    if (!url.endsWith('/slow')) return res.end('ok');
    pending.push(res);
    return res.once('close', () => pending.splice(pending.indexOf(res), 1));
  });
  let front: Edge;
  beforeAll(async () => {
    await once(gateway.listen(0, '127.0.0.1'), 'listening');
    front = await startEdge({ gatewayPort: (gateway.address() as AddressInfo).port });
  });
  // The edge leaves a request whose client has gone.
  afterEach(() => until(() => pending.length === 0));
  afterAll(async () => {
    await front?.stop();
    gateway.closeAllConnections();
    gateway.close();
  });

  const SLOW = 'GET /slow HTTP/1.1\r\nHost: x\r\n\r\n';

  test('of the requests that a connection sends at once, one is at the gateway', async () => {
    const socket = connect(front.port, '127.0.0.1');
    let received = '';
    socket.on('data', (chunk) => {
      received += chunk;
    });
    socket.write(SLOW.repeat(100));
    for (let n = 1; n <= 100; n += 1) {
      await until(() => pending.length === 1);
      pending[0]?.end('slow');
      await until(() => received.split('\r\n\r\nslow').length === n + 1);
    }
    socket.destroy();
  }, 60_000);

  test.each([
    ['without one are refused', '/api/slow', 3, 16],
    ['ask for what is for everybody', '/slow', 10, 900],
  ])(
    'who has a credential does not wait behind those who %s, however many and slow',
    async (...o) => {
      const [, path, addresses, places] = o;
      const sockets = Array.from({ length: addresses * 100 }, (_, n) => {
        const localAddress = `127.0.3.${n % addresses}`;
        const socket = connect({ host: '127.0.0.1', port: front.port, localAddress });
        socket.on('error', () => {}).write(`GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`);
        return socket.resume();
      });
      await until(() => pending.length === places);
      const headers = { 'x-authorization': 'any' };
      expect(await send(front.port, { path: '/api/', headers })).toMatchObject({ status: 200 });
      expect(pending).toHaveLength(places);
      for (const socket of sockets) socket.destroy();
    },
    120_000,
  );

  test('of one address, a hundred wait at once', async () => {
    const agent = new Agent({ maxSockets: 150 });
    const statuses: number[] = [];
    const sent = Array.from({ length: 150 }, async () => {
      const answer = await send(front.port, { path: '/slow', from: '127.0.5.1', agent }).catch(
        () => {},
      );
      statuses.push(answer?.status ?? 0);
    });
    await until(() => pending.length === 100 && statuses.length === 50);
    expect(new Set(statuses)).toEqual(new Set([429]));
    for (const res of [...pending]) res.end();
    await Promise.all(sent);
    agent.destroy();
  }, 60_000);
});

describe('beside strangers who attack from eight addresses', () => {
  const ATTACKERS = Array.from({ length: 8 }, (_, n) => `127.0.0.${n + 10}`);
  /** Together, as many as shut a gateway without an edge out. */
  const SOCKETS = 4_100;

  test('other clients are served, each request, and every probe', async () => {
    const sockets = ATTACKERS.flatMap((localAddress) =>
      Array.from({ length: Math.ceil(SOCKETS / ATTACKERS.length) }, () => {
        const socket = connect({ host: '127.0.0.1', port: edge.port, localAddress });
        socket.on('error', () => {}).write('GET /livez HTTP/1.1\r\nHost: x\r\nX-Slow: ');
        return socket.resume();
      }),
    );
    const state = { isOver: false, refused: 0 };
    const floods = ATTACKERS.flatMap((from) => {
      const agent = new Agent({ keepAlive: true, maxSockets: 4 });
      return Array.from({ length: 4 }, async () => {
        while (!state.isOver) {
          const answer = await send(edge.port, { path: WEBHOOKS, from, agent }).catch(() => {});
          // Or its connection was one too many.
          if (answer === undefined || answer.status === 429) state.refused += 1;
        }
        agent.destroy();
      });
    });
    const statuses = new Map<string, number>();
    for (let n = 0; n < 200; n += 1) {
      const from = `127.0.1.${n % 50}`;
      const headers = { 'x-authorization': under.key };
      const answers = await Promise.all([
        send(edge.port, { path: WEBHOOKS, from, headers }),
        send(edge.port, { path: '/livez', from }),
      ]);
      const found = answers.map(({ status }) => status).join();
      statuses.set(found, (statuses.get(found) ?? 0) + 1);
    }
    state.isOver = true;
    await Promise.all(floods);
    for (const socket of sockets) socket.destroy();
    expect([...statuses]).toEqual([['200,200', 200]]);
    expect(state.refused).toBeGreaterThan(0);
  }, 120_000);
});
