import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { type AddressInfo, connect as connectPlain, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect, type PeerCertificate, type TLSSocket } from 'node:tls';
import { Code } from '@connectrpc/connect';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { pino } from 'pino';
import { CartsService } from '../../../proto/gen/rms/carts/v1/carts_pb.ts';
import { type Certificate, createAuthority } from '../../../test/kit/certificates.ts';
import { cart, failure, identity } from '../../../test/kit/services/rpc-bench.ts';
import { testTelemetry } from '../../../test/kit/services/telemetry.ts';
import { until } from '../../../test/kit/until.ts';
import { startServiceServer } from '../process/service.ts';
import { withTls } from '../security/identity.ts';
import { openTlsFiles } from '../security/tls-files.ts';
import type { Telemetry } from '../telemetry/telemetry.ts';
import { createServiceClient } from './client.ts';
import type { RunningServer } from './server.ts';

const HOUR_MS = 3_600_000;
const ours = createAuthority('ours');
const others = createAuthority('others');

let folder: string;
let telemetry: Telemetry;
let cleanups: (() => unknown)[];
/** The log lines of the servers. */
let logged: object[];
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'rms-tls-'));
  telemetry = await testTelemetry();
  logged = [];
  cleanups = [() => rm(folder, { recursive: true }), () => telemetry.stop()];
});
afterEach(async () => {
  for (const cleanup of cleanups.reverse()) await cleanup();
});

/** The mounted files of one process. */
async function files(name: string, o: { ca: string; certificate?: Certificate }) {
  const path = (kind: string) => join(folder, `${name}.${kind}`);
  await writeFile(path('ca'), o.ca);
  if (o.certificate) {
    await writeFile(path('key'), o.certificate.key);
    await writeFile(path('crt'), o.certificate.cert);
  }
  const own = o.certificate && { certFile: path('crt'), keyFile: path('key') };
  return openTlsFiles({ caFile: path('ca'), ...own, pollMs: 20 });
}

async function serve(
  o: {
    certificate?: Certificate;
    ca?: string;
    requiresClientCertificate?: boolean;
    getCart?: () => Promise<object>;
  } = {},
): Promise<RunningServer> {
  const getCart = o.getCart ?? (() => ({}));
  const certificate = o.certificate ?? ours.issue({ name: 'localhost' });
  const tls = {
    files: await files('server', { ca: o.ca ?? ours.cert, certificate }),
    requiresClientCertificate: o.requiresClientCertificate ?? false,
  };
  const server = await startServiceServer({
    port: 0,
    routes: (router) => void router.service(CartsService, { getCart, createCart: () => ({}) }),
    identity: withTls(identity, tls),
    logger: pino({}, { write: (line: string) => void logged.push(JSON.parse(line)) }),
    telemetry,
    reflection: false,
    maxCallsInFlight: 100,
    isReady: async () => true,
    isOpen: () => true,
  });
  cleanups.push(() => server.stop());
  return server;
}

async function connection(
  { port }: RunningServer,
  o: { ca?: string; certificate?: Certificate; name?: string } = {},
) {
  const { ca = ours.cert, certificate } = o;
  const tls = {
    files: await files('client', { ca, ...(certificate && { certificate }) }),
    requiresClientCertificate: false,
  };
  const target = `dns:///${o.name ?? 'localhost'}:${port}`;
  const made = createServiceClient(CartsService, {
    target,
    identity: withTls(identity, tls),
    timeoutMs: 5_000,
  });
  cleanups.push(() => made.close());
  return { client: made.client, tls };
}

const clientOf = async (...given: Parameters<typeof connection>) =>
  (await connection(...given)).client;

/** The certificate that a new connection gets. */
async function certificateOf({ port }: RunningServer): Promise<PeerCertificate> {
  const socket: TLSSocket = connect({ port, ALPNProtocols: ['h2'], rejectUnauthorized: false });
  await once(socket, 'secureConnect');
  const certificate = socket.getPeerCertificate();
  socket.destroy();
  return certificate;
}

describe('gRPC over TLS', () => {
  test('serves clients that trust the authority and the name', async () => {
    const client = await clientOf(await serve());
    await expect(client.getCart(cart)).resolves.toBeDefined();
  });

  test('accepts TLS 1.2 and 1.3, and no older version', async () => {
    const { port } = await serve();
    const handshake = async (version: 'TLSv1.1' | 'TLSv1.2' | 'TLSv1.3') => {
      const only = { minVersion: version, maxVersion: version };
      // Otherwise our own client would not offer such old versions.
      const old = version === 'TLSv1.1' && { ciphers: 'ALL:@SECLEVEL=0' };
      const socket = connect({ port, ...only, ...old, rejectUnauthorized: false });
      const isDone = once(socket, 'secureConnect').then(
        () => true,
        () => false,
      );
      return isDone.finally(() => socket.destroy());
    };
    expect(await handshake('TLSv1.3')).toBe(true);
    expect(await handshake('TLSv1.2')).toBe(true);
    expect(await handshake('TLSv1.1')).toBe(false);
  });

  test('a server with another authority, another name or an expired certificate is UNAVAILABLE', async () => {
    const hourAgo = new Date(Date.now() - HOUR_MS);
    const expired = { from: new Date(hourAgo.getTime() - HOUR_MS), to: hourAgo };
    for (const certificate of [
      others.issue({ name: 'localhost' }),
      ours.issue({ name: 'elsewhere' }),
      ours.issue({ name: 'localhost', ...expired }),
    ]) {
      const client = await clientOf(await serve({ certificate }));
      const error = await failure(client.getCart(cart));
      expect(error.code).toBe(Code.Unavailable);
      // The text in the caller's log.
      expect(error.message).toMatch(/certificate/);
    }
  });

  test('a client without TLS gets no response, and sends no token', async () => {
    const server = await serve();
    const plain = createServiceClient(CartsService, {
      target: `127.0.0.1:${server.port}`,
      identity,
      timeoutMs: 5_000,
    });
    cleanups.push(() => plain.close());
    const error = await failure(plain.client.getCart(cart));
    expect([Code.Unavailable, Code.DeadlineExceeded]).toContain(error.code);
  });

  test('when client certificates are required, only those of the same authority are accepted', async () => {
    const server = await serve({ requiresClientCertificate: true });
    const calls = async (o: { certificate?: Certificate }) =>
      (await clientOf(server, o)).getCart(cart);
    await expect(calls({ certificate: ours.issue({ name: 'gateway' }) })).resolves.toBeDefined();
    // The texts in the logs of both sides.
    expect(await failure(calls({}))).toMatchObject({
      code: Code.Unavailable,
      rawMessage: 'the server requires a client certificate: set GRPC_TLS_CERT_FILE',
    });
    expect(logged).toMatchObject([{ reason: 'the client sent none' }]);
  });

  test('a server logs why it does not accept the certificate of a client', async () => {
    const server = await serve({ requiresClientCertificate: true });
    const foreign = await clientOf(server, { certificate: others.issue({ name: 'gateway' }) });
    expect((await failure(foreign.getCart(cart))).code).toBe(Code.Unavailable);
    await until(() => logged.length > 0);
    expect(logged).toMatchObject([
      { reason: 'UNABLE_TO_VERIFY_LEAF_SIGNATURE', msg: 'certificate of a client not accepted' },
    ]);
  });
});

describe('files that change', () => {
  test('new connections use a new certificate, without a restart and without a lost call', async () => {
    const server = await serve();
    const client = await clientOf(server);
    await client.getCart(cart);
    const before = (await certificateOf(server)).serialNumber;
    await files('server', { ca: ours.cert, certificate: ours.issue({ name: 'localhost' }) });
    await until(async () => {
      await client.getCart(cart);
      return (await certificateOf(server)).serialNumber !== before;
    });
  });

  test('a call in flight finishes on its connection', async () => {
    const held = Promise.withResolvers<void>();
    const entered = Promise.withResolvers<void>();
    const server = await serve({
      getCart: async () => {
        entered.resolve();
        await held.promise;
        return {};
      },
    });
    const { client, tls } = await connection(server);
    const changed = Promise.withResolvers<void>();
    cleanups.push(tls.files.onChange(changed.resolve));
    const call = client.getCart(cart, { timeoutMs: 60_000 });
    await entered.promise;
    await files('client', { ca: ours.cert + others.cert });
    await changed.promise;
    held.resolve();
    await expect(call).resolves.toBeDefined();
  });

  test('a call that waits for a connection is sent over the new one, even if it may not be repeated', async () => {
    const server = await serve();
    const reached = Promise.withResolvers<void>();
    const sockets: Socket[] = [];
    // The first connection gets no response; the server handles later ones.
    const front = createServer((socket) => {
      sockets.push(socket.on('error', () => {}));
      if (sockets.length === 1) return reached.resolve();
      const behind = connectPlain(server.port, '127.0.0.1').on('error', () => {});
      sockets.push(behind);
      socket.pipe(behind).pipe(socket);
    });
    await once(front.listen(0, '127.0.0.1'), 'listening');
    cleanups.push(() => {
      for (const socket of sockets) socket.destroy();
      front.close();
    });
    const { port } = front.address() as AddressInfo;
    const { client } = await connection({ ...server, port });
    const call = client.createCart({ shopId: 1n, actor: cart.actor }, { timeoutMs: 60_000 });
    await reached.promise;
    await files('client', { ca: ours.cert + others.cert });
    await expect(call).resolves.toBeDefined();
  });

  test('authorities change in three steps: both trusted, the new certificate, the old one removed', async () => {
    const server = await serve();
    const client = await clientOf(server);
    await client.getCart(cart);
    await files('client', { ca: ours.cert + others.cert });
    await files('server', { ca: others.cert, certificate: others.issue({ name: 'localhost' }) });
    await until(async () => (await certificateOf(server)).issuer.CN === 'others');
    // A client that trusts only the old authority is rejected; ours has already read both.
    await until(() =>
      client.getCart(cart).then(
        () => true,
        () => false,
      ),
    );
    await files('client', { ca: others.cert });
    await client.getCart(cart);
    const late = await clientOf(server, { ca: ours.cert });
    expect((await failure(late.getCart(cart))).code).toBe(Code.Unavailable);
  });

  test('half a renewal has no effect: a certificate waits for its key', async () => {
    const server = await serve();
    const client = await clientOf(server);
    const before = (await certificateOf(server)).serialNumber;
    const next = ours.issue({ name: 'localhost' });
    await writeFile(join(folder, 'server.crt'), next.cert);
    await client.getCart(cart);
    expect((await certificateOf(server)).serialNumber).toBe(before);
    await writeFile(join(folder, 'server.key'), next.key);
    await until(async () => (await certificateOf(server)).serialNumber !== before);
    await client.getCart(cart);
  });
});
