import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { z } from 'zod';
import { LOCAL_ACTOR } from '../../deploy/local/clients.ts';
import { Partner, subscribe } from '../../deploy/local/demo/partner.ts';
import { submission } from '../../deploy/local/demo/submission.ts';
import { connectServices } from '../../gateway/services.ts';
import type { Return } from '../../proto/gen/rms/returns/v1/return_pb.ts';
import { SCHEMAS } from '../../services/platform/postgres/schemas.ts';
import { type ServiceIdentity, staticIdentity } from '../../services/platform/security/identity.ts';
import { runToSuccess } from '../kit/process.ts';
import { until } from '../kit/until.ts';
import { type Receiver, startReceiver } from '../kit/webhooks/receiver.ts';
import { verified } from '../kit/webhooks/signatures.ts';
import { type Cluster, startCluster } from './cluster.ts';

const SERVICES = SCHEMAS.map(({ name }) => name).filter((name) => name !== 'gateway');
const PROCESSES = SCHEMAS.map(({ name }) => name);
const START_MS = 60_000;
const STOP_MS = 30_000;

let cluster: Cluster;
let identity: ServiceIdentity;
let backend: ReturnType<typeof connectServices>;
let baseUrl: string;
let receiver: Receiver;
let secret: string;

beforeAll(async () => {
  // Only public addresses, unless a receiver on loopback is allowed.
  cluster = await startCluster('deploy/overlays/dev', {
    webhooks: { WEBHOOK_ALLOWED_ORIGINS: 'http://127.0.0.1:*' },
  });
  baseUrl = `http://${cluster.addressOf('gateway:8080')}`;
  identity = staticIdentity(cluster.envOf('gateway').SERVICE_TOKEN ?? '');
  const targets = SERVICES.map((name) => [name, cluster.addressOf(`${name}:8080`)]);
  backend = connectServices(Object.fromEntries(targets), { identity });
});

afterAll(async () => {
  backend?.close();
  await receiver?.stop();
  await cluster?.stop();
});

/** Waits for a condition of a process. When the process exits first, the error contains its output. */
async function untilIn(name: string, isTrue: () => Promise<boolean>): Promise<void> {
  const running = cluster.processes.get(name);
  await until(async () => {
    if (!running || running.hasExited()) throw new Error(`${name} ended: ${running?.output()}`);
    return isTrue().catch(() => false);
  }, START_MS).catch((cause: unknown) => {
    throw new Error(`${name} is not ready:\n${running?.output()}`, { cause });
  });
}

describe('the processes, with only the variables of their manifests', () => {
  test.each(SERVICES)('%s passes its readiness probe', async (name) => {
    const { METRICS_PORT } = cluster.envOf(name);
    const url = `http://127.0.0.1:${METRICS_PORT}/readyz`;
    await untilIn(name, async () => (await fetch(url)).status === 200);
  });

  test('gateway passes its readiness probe', async () => {
    await untilIn('gateway', async () => (await fetch(`${baseUrl}/readyz`)).status === 200);
    expect((await fetch(`${baseUrl}/livez`)).status).toBe(200);
  });

  test.each(PROCESSES)('%s serves its metrics on a separate port', async (name) => {
    const { METRICS_PORT } = cluster.envOf(name);
    const answer = await fetch(`http://127.0.0.1:${METRICS_PORT}/metrics`);
    expect(await answer.text()).toContain('process_resident_memory_bytes');
  });
});

describe('a return, through all processes', () => {
  let partner: Partner;
  let made: Return;
  const shop = { id: 0, currency: 'GBP', destinationId: 0 };
  const forShop = () => ({ shopId: BigInt(shop.id), actor: LOCAL_ACTOR });

  test('an operator creates a shop and a key in the gateway pod', async () => {
    const admin = (...args: string[]) =>
      runToSuccess({ args: ['gateway/admin/main.ts', ...args], env: cluster.envOf('gateway') });
    const said = await admin(
      ...['shop', 'create', '--name', 'Pods & Co', '--currency', 'GBP'],
      ...['--owner-email', 'owner@example.com'],
    );
    shop.id = Number(/^shop (\d+) /.exec(said)?.[1]);
    expect(shop.id).toBeGreaterThan(0);
    const scopes = 'returns,carts,developer_tools,destinations:write';
    const key = (await admin('key', 'create', '--shop', `${shop.id}`, '--scopes', scopes)).trim();
    expect(key).toMatch(/^rms_[a-z0-9]{12}_/);
    partner = new Partner(baseUrl, key);
  });

  test('a partner subscribes', async () => {
    receiver = await startReceiver();
    ({ secret } = await subscribe(partner, receiver.url));
    expect(secret).toMatch(/^whsec_/);
  });

  test('a partner reads a return over REST that was submitted over gRPC', async () => {
    const { destination } = await backend.services.destinations.createDestination({
      ...forShop(),
      idempotencyKey: 'warehouse',
      name: 'Warehouse',
    });
    shop.destinationId = Number(destination?.id);
    const answer = await backend.services.returns.submitReturn(
      submission(shop, { key: 'return-1', serial: 1 }),
    );
    if (!answer.return) throw new Error('the response has no return');
    made = answer.return;
    const details = await partner.details(`return_id=${made.id}`);
    expect(details).toMatchObject({ id: Number(made.id), state: 'open', order_name: '#1' });
  });

  test('a partner uses dispositions, fraud, carts and destinations over REST', async () => {
    const call = (path: string, body: unknown, method = 'POST') =>
      partner.call(path, { method, path: `/api/2026-10/${path}`, body });
    const items = made.lineItems.map((line) => ({
      line_item_id: Number(line.lineItemId),
      note: 'as new',
    }));
    const statuses = [
      await call('dispositioning/assess', { items }),
      await call(`returns/${made.id}/fraud-report`, { category: 'item-is-worn' }),
      await call('cart', { cart: [1] }),
      await call(`destinations/${shop.destinationId}`, { name: 'Warehouse 2' }, 'PUT'),
    ].map(({ status }) => status);
    expect(statuses).toEqual([200, 201, 200, 200]);
  });

  test('a partner processes it, and a signed return.closed arrives over Kafka', async () => {
    const path = `/api/2026-10/warehouse/return/${made.id}/process`;
    expect(await partner.call('process', { method: 'POST', path })).toEqual({
      status: 200,
      body: true,
    });
    await until((see) => see(receiver.received.length) > 0, START_MS);
    expect(receiver.received.map((one) => verified(secret, one))).toEqual([
      expect.objectContaining({ id: Number(made.id), trigger: 'return.closed' }),
    ]);
    expect((await partner.details(`return_id=${made.id}`))?.state).toBe('closed');
  });
});

describe('the demo of the dev overlay', () => {
  const readJson = async (url: string) => (await fetch(url)).json();
  const demo = (path: string) => `http://${cluster.addressOf('receiver:8080')}${path}`;
  const contentsShape = z.object({
    auth_url: z.string(),
    identity_url: z.string(),
    users: z.array(z.looseObject({ email: z.string(), password: z.string() })).min(5),
    shops: z.array(z.looseObject({ api_keys: z.looseObject({ all: z.string() }) })).length(2),
  });

  test('has shops with valid keys, and users who can sign in', async () => {
    await untilIn('demo', async () => (await fetch(demo('/readyz'))).status === 200);
    const { shops, users } = contentsShape.parse(await readJson(demo('/demo.json')));
    const [first] = shops;
    expect(users[0]).toMatchObject({ email: 'owner@example.com', password: 'dev-only-owner' });
    const partner = new Partner(baseUrl, first?.api_keys.all ?? '');
    expect((await partner.details('order_name=%2310000'))?.state).toBe('open');
  });

  test('has an identity provider at the address that the gateway uses', async () => {
    const { SIGN_IN_ISSUER: issuer } = cluster.envOf('gateway');
    const contents = contentsShape.parse(await readJson(demo('/demo.json')));
    expect(contents.identity_url).toBe(issuer);
    const metadata = await readJson(`${issuer}/.well-known/openid-configuration`);
    expect(metadata).toMatchObject({ issuer });
  });

  test("has the gateway as the authorization server of partners' apps", async () => {
    const { auth_url } = contentsShape.parse(await readJson(demo('/demo.json')));
    expect(auth_url).toBe(`${cluster.envOf('gateway').PUBLIC_BASE_URL}/partners`);
    const path = '/.well-known/oauth-authorization-server/partners';
    expect(await readJson(`${baseUrl}${path}`)).toMatchObject({ issuer: auth_url });
  });

  test('has a receiver that shows the signed webhooks of the demo data', async () => {
    await until(async () => {
      const webhooks = z
        .array(z.looseObject({ valid: z.boolean(), path: z.string() }))
        .parse(await readJson(demo('/webhooks.json')));
      return webhooks.some(({ valid, path }) => valid && path === '/webhooks');
    }, START_MS);
    expect(await (await fetch(demo('/'))).text()).toContain('return.closed');
  });

  test('has a mail server that shows the mails of the gateway', async () => {
    const { shops } = contentsShape.parse(await readJson(demo('/demo.json')));
    const headers = { 'x-authorization': shops[0]?.api_keys.all ?? '' };
    const webhooks = z
      .array(z.looseObject({ id: z.int() }))
      .parse(await (await fetch(`${baseUrl}/api/2026-10/webhooks`, { headers })).json());
    const secret = `${baseUrl}/api/2026-10/webhooks/${webhooks[0]?.id}/secret`;
    expect((await fetch(secret, { headers })).status).toBe(200);
    const mails = z.array(z.object({ to: z.string(), subject: z.string(), text: z.string() }));
    await until(async () => {
      const caught = mails.parse(await readJson(demo('/mails.json?to=owner@example.com')));
      return caught.some(
        ({ to, text }) => to === 'owner@example.com' && text.includes('By: the API key'),
      );
    }, START_MS);
    expect(await (await fetch(demo('/'))).text()).toContain('A webhook signing secret was shown');
  });
});

describe('operating it', () => {
  const metricsOf = async (name: string) => {
    const answer = await fetch(`http://127.0.0.1:${cluster.envOf(name).METRICS_PORT}/metrics`);
    return answer.text();
  };

  test('a replay of stored events, as after a loss of Kafka, reaches listeners and changes nothing', async () => {
    const repeats = async () => {
      const [, total = '0'] =
        /^events_duplicate_total{[^}]*} (\d+)/m.exec(await metricsOf('webhooks')) ?? [];
      return Number(total);
    };
    const [before, repeatedBefore] = [receiver.received.length, await repeats()];
    const anHourAgo = new Date(Date.now() - 3_600_000).toISOString();
    const replay = ['services/returns/replay.ts', '--from', anHourAgo];
    const said = await runToSuccess({ args: replay, env: cluster.envOf('returns') });
    const [, count] = /^(\d+) event\(s\) published again$/m.exec(said) ?? [];
    expect(Number(count)).toBeGreaterThan(2);
    // Kafka may also deliver an event again without the replay: at least once.
    await until(async (see) => see(await repeats()) >= repeatedBefore + Number(count), START_MS);
    expect(receiver.received).toHaveLength(before);
  });

  test('docs/runbook.md explains every metric', async () => {
    const page = readFileSync(new URL('../../docs/runbook.md', import.meta.url), 'utf8');
    const exported = new Set<string>();
    for (const name of PROCESSES) {
      for (const [, metric = ''] of (await metricsOf(name)).matchAll(/^# TYPE (\S+) /gm)) {
        exported.add(metric);
      }
    }
    exported.delete('target_info');
    expect(exported.size).toBeGreaterThan(12);
    expect([...exported].filter((metric) => !page.includes(`\`${metric}\``))).toEqual([]);
  });
});

describe('the end of a pod', () => {
  test('on SIGTERM every process exits with 0, well within its grace period', async () => {
    const startedAt = performance.now();
    const processes = [...cluster.processes.values()];
    expect(processes.map(({ hasExited }) => hasExited())).toEqual(
      [...PROCESSES, 'demo'].map(() => false),
    );
    for (const one of processes) one.signal('SIGTERM');
    const exits = await Promise.all(
      processes.map(async ({ name, exited }) => ({ name, ...(await exited) })),
    );
    expect(exits).toEqual(processes.map(({ name }) => ({ name, code: 0, signal: null })));
    expect(performance.now() - startedAt).toBeLessThan(STOP_MS);
  });

  test('every process logs that it stopped, and no error', () => {
    for (const [name, { output }] of cluster.processes) {
      if (name !== 'demo') expect(output()).toContain('"stopped"');
      expect(output()).not.toMatch(/"level":"(error|fatal)"/);
    }
  });
});
