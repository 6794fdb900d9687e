import { randomUUID } from 'node:crypto';
import type { Page } from 'playwright-core';
import { storeGrant } from '../../../gateway/oauth/issue.ts';
import { installApp } from '../../../gateway/tenancy/installations.ts';
import { Actor_Kind } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import { createPool } from '../../../services/platform/postgres.ts';
import { personOf } from '../mcp/shared-stack.ts';
import type { OpenStack } from '../stack.ts';
import { until } from '../until.ts';
import { startReceiver } from '../webhooks/receiver.ts';
import { callPortal } from './call.ts';
import { failingWebhook } from './failing-webhook.ts';

/** What the writes of the portal are about. */
export interface WriteStage {
  /** A webhook with delivered deliveries. */
  readonly webhookId: string;
  readonly deliveryId: string;
  readonly replayId: string;
  /** A webhook with a delivery that waits. */
  readonly failingId: string;
  /** A webhook that can be deleted. */
  readonly spareId: string;
  /** A payload version that the shop does not use now. */
  otherVersion(): Promise<string>;
  readonly destination: string;
  readonly key: string;
  readonly keyToRevoke: string;
  /** The name of a partner app and of an assistant. */
  readonly app: string;
  readonly member: string;
  /** The page of a new return of a kind. */
  returnIn(state: string): Promise<string>;
  /** Removes the webhooks, so that other tests do not see them. */
  strike(): Promise<void>;
}

type Created = { readonly webhook: { readonly id: string } };

const key = () => ({ idempotencyKey: randomUUID() });

/** @param page of the owner. */
export async function writeStage(stack: OpenStack, page: Page): Promise<WriteStage> {
  const [receiver, broken] = [await startReceiver(), await startReceiver()];
  broken.answer = (response) => void response.writeHead(500).end();
  const call = <T = unknown>(name: string, body: object) => callPortal<T>(page, name, body);
  const webhookAt = async (path: string) => {
    const url = new URL(path, receiver.url).href;
    const body = { ...key(), topic: 'return', trigger: 'return.updated', url };
    const { webhook } = await call<Created>('WebhooksService/CreateWebhook', body);
    return webhook.id;
  };
  const [webhookId, spareId] = [await webhookAt('/writes'), await webhookAt('/spare')];
  const ids = { destination: randomUUID(), key: randomUUID(), revoke: randomUUID() };
  const place = { name: ids.destination, type: 'donate', enabled: false };
  const address = { countryCode: 'GB' };
  await call('DestinationsService/CreateDestination', { ...key(), ...place, address });
  for (const description of [ids.key, ids.revoke]) {
    await call('ApiKeysService/CreateApiKey', { ...key(), description, scopes: ['returns'] });
  }
  const member = `${randomUUID()}@example.com`;
  await call('TeamService/AddMember', { email: member, name: '', role: 'analyst' });
  const app = `app-${randomUUID()}`;
  await connect(stack, app);
  const deliveryId = await delivered(stack, page, webhookId);
  const { replay } = await call<{ replay: { id: string } }>('WebhooksService/StartReplay', {
    ...key(),
    filter: { webhookId, states: ['delivered'] },
  });
  const failingId = await failingWebhook(stack, page, broken);
  return {
    webhookId,
    deliveryId,
    replayId: replay.id,
    failingId,
    spareId,
    otherVersion: () => otherVersion(page),
    destination: ids.destination,
    key: ids.key,
    keyToRevoke: ids.revoke,
    app,
    member,
    returnIn: async (state) => `/returns/${(await stack.fixture(state)).id}`,
    strike: async () => {
      for (const id of [webhookId, failingId]) {
        await call('WebhooksService/DeleteWebhook', { webhookId: id });
      }
      await Promise.all([receiver.stop(), broken.stop()]);
    },
  };
}

async function otherVersion(page: Page): Promise<string> {
  const { version, versions } = await callPortal<{
    readonly version: string;
    readonly versions: readonly { readonly version: string; readonly selectable?: boolean }[];
  }>(page, 'PayloadVersionService/GetPayloadVersion', {});
  const other = versions.find((one) => one.selectable && one.version !== version);
  return other?.version ?? '';
}

/** Flags a return, and returns the id of the delivery that says so when it was received. */
async function delivered(stack: OpenStack, page: Page, webhookId: string): Promise<string> {
  const { id } = await stack.fixture('open');
  const flag = { ...key(), returnId: String(id), reasons: ['A trial'] };
  await callPortal(page, 'ReturnsService/FlagReturn', flag);
  const list = { webhookId, states: ['delivered'], pageSize: 1 };
  return until(async () => {
    const { deliveries } = await callPortal<{ deliveries?: { id: string }[] }>(
      page,
      'WebhooksService/ListDeliveries',
      list,
    );
    return deliveries?.[0]?.id;
  });
}

/** Installs a partner app, and connects an assistant of the owner, as their pages do. */
async function connect(stack: OpenStack, app: string): Promise<void> {
  const url = new URL(stack.file.database_url);
  url.searchParams.set('options', '-c search_path=gateway');
  const pool = createPool(url.href);
  const shopId = BigInt(stack.shop.id);
  const by = { actor: { kind: Actor_Kind.SYSTEM, id: 'admin', name: 'Operator' } };
  await installApp(pool, { shopId, issuer: 'https://auth.example.com', clientId: app, by });
  const { rows } = await pool.query<{ id: bigint }>('select id from users where email = $1', [
    personOf(stack, 'owner').email,
  ]);
  const userId = rows[0]?.id ?? 0n;
  await storeGrant(pool, randomUUID(), { userId, shopId, clientId: 'rms-mcp', app });
  // The page folds those that never called, when another test left one that did.
  await pool.query('update oauth_grants set last_used_at = now() where app = $1', [app]);
  await pool.end();
}
