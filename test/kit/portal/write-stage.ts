import { randomInt, randomUUID } from 'node:crypto';
import type { Page } from 'playwright-core';
import { issuePartnerGrant } from '../../../gateway/oauth/partners/tokens.ts';
import { storeGrant } from '../../../gateway/oauth/tokens/issue.ts';
import { createPartnerApp } from '../../../gateway/tenancy/partner-apps.ts';
import { Actor_Kind } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import { callIn, connectStack } from '../journeys/journey.ts';
import type { OpenStack } from '../stack.ts';
import { until } from '../until.ts';
import { startReceiver } from '../webhooks/receiver.ts';
import { addWebhook, callPortal, deleteWebhooks } from './call.ts';
import { failingWebhook } from './failing-webhook.ts';
import { addTeamMember, gatewayPool, userIdOf } from './gateway-pool.ts';

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
  readonly destination: string;
  readonly key: string;
  readonly keyToRevoke: string;
  /** Keys that wait for an owner. */
  readonly waitingKeys: { readonly approve: string; readonly reject: string };
  /** The name of a partner app and of an assistant. */
  readonly app: string;
  readonly member: string;
  /** Invited addresses. */
  readonly invited: { readonly resend: string; readonly withdraw: string };
  /** The page of a new return of a kind. */
  returnIn(state: string): Promise<string>;
  /** A shopper withdraws from a contract. */
  withdraw(): Promise<void>;
  /** Removes the webhooks, so that other tests do not see them. */
  strike(): Promise<void>;
}

const key = () => ({ idempotencyKey: randomUUID() });

/** @param page of the owner. */
export async function writeStage(stack: OpenStack, page: Page): Promise<WriteStage> {
  const [receiver, broken] = [await startReceiver(), await startReceiver()];
  broken.answer = (response) => void response.writeHead(500).end();
  const call = <T = unknown>(name: string, body: object) => callPortal<T>(page, name, body);
  const webhookAt = (path: string) =>
    addWebhook(page, { trigger: 'return.updated', url: new URL(path, receiver.url).href });
  const [webhookId, spareId] = [await webhookAt('/writes'), await webhookAt('/spare')];
  const ids = { destination: randomUUID(), key: randomUUID(), revoke: randomUUID() };
  const place = { name: ids.destination, type: 'DESTINATION_TYPE_DONATE', enabled: false };
  const address = { countryCode: 'GB' };
  await call('DestinationsService/CreateDestination', { ...key(), ...place, address });
  const waitingKeys = { approve: randomUUID(), reject: randomUUID() };
  const waiting = Object.values(waitingKeys);
  for (const description of [ids.key, ids.revoke, ...waiting]) {
    await call('ApiKeysService/CreateApiKey', { ...key(), description, scopes: ['returns'] });
  }
  await letWait(stack, waiting);
  const member = `${randomUUID()}@example.com`;
  await addTeamMember(stack, { email: member, role: 'analyst' });
  const invited = {
    resend: `${randomUUID()}@example.com`,
    withdraw: `${randomUUID()}@example.com`,
  };
  for (const email of Object.values(invited)) {
    await call('TeamService/InviteMember', { ...key(), email, role: 'analyst' });
  }
  const app = `app-${randomUUID()}`;
  await connect(stack, app);
  const deliveryId = await delivered(stack, page, webhookId);
  const { replay } = await call<{ replay: { id: string } }>('WebhooksService/StartReplay', {
    ...key(),
    filter: { subscriptionId: webhookId, states: ['DELIVERY_STATE_DELIVERED'] },
  });
  const failingId = await failingWebhook(stack, page, broken);
  return {
    webhookId,
    deliveryId,
    replayId: replay.id,
    failingId,
    spareId,
    destination: ids.destination,
    key: ids.key,
    keyToRevoke: ids.revoke,
    waitingKeys,
    app,
    member,
    invited,
    returnIn: async (state) => `/returns/${(await stack.fixture(state)).id}`,
    withdraw: () => withdraw(stack),
    strike: async () => {
      await deleteWebhooks(page, webhookId, failingId);
      await call('CommerceService/Disconnect', {});
      await Promise.all([receiver.stop(), broken.stop()]);
    },
  };
}

async function withdraw(stack: OpenStack): Promise<void> {
  const { services, close } = connectStack(stack);
  await services.returns.declareWithdrawal({
    ...callIn(stack.shop),
    ...key(),
    ...{ orderName: `#T10-${randomInt(1_000, 1_000_000)}`, name: 'Ada Example' },
    email: 'shopper@example.com',
  });
  close();
}

/** Makes keys wait for an owner, as those of a member who may do less. */
async function letWait(stack: OpenStack, descriptions: readonly string[]): Promise<void> {
  const pool = gatewayPool(stack);
  await pool.query(
    'update api_keys set waiting_secret_hash = secret_hash where description = any($1::text[])',
    [descriptions],
  );
  await pool.end();
}

/** Flags a return, and returns the id of the delivery that says so when it was received. */
async function delivered(stack: OpenStack, page: Page, webhookId: string): Promise<string> {
  const { id } = await stack.fixture('open');
  const flag = { ...key(), returnId: String(id), reasons: ['A trial'] };
  await callPortal(page, 'ReturnsService/FlagReturn', flag);
  const list = { subscriptionId: webhookId, states: ['DELIVERY_STATE_DELIVERED'], pageSize: 1 };
  return until(async () => {
    const { deliveries } = await callPortal<{ deliveries?: { id: string }[] }>(
      page,
      'WebhooksService/ListDeliveries',
      list,
    );
    return deliveries?.[0]?.id;
  });
}

/** Installs a partner app that waits for more, and connects an assistant of the owner, as their pages do. */
async function connect(stack: OpenStack, app: string): Promise<void> {
  const pool = gatewayPool(stack);
  const shopId = BigInt(stack.shop.id);
  const by = { actor: { kind: Actor_Kind.SYSTEM, id: 'admin', name: 'Operator' } };
  const userId = await userIdOf(pool, stack, 'owner');
  const scopes = ['labels:write'];
  const redirectUris = ['https://app.example.com/callback'];
  await createPartnerApp(pool, { name: app, redirectUris, scopes, fixed: { clientId: app } });
  const whose = { shopId, userId, clientId: app, issuer: stack.file.auth_url };
  const id = await issuePartnerGrant(pool, { ...whose, requested: scopes, by });
  await pool.query(
    "update partner_grants set scopes = '{}', waiting_scopes = scopes where id = $1",
    [id],
  );
  await storeGrant(pool, randomUUID(), { userId, shopId, clientId: 'rms-mcp', app });
  // The page folds those that never called, when another test left one that did.
  await pool.query('update oauth_grants set last_used_at = now() where app = $1', [app]);
  await pool.end();
}
