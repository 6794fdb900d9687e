import type { MessageInitShape } from '@bufbuild/protobuf';
import { type Client, Code } from '@connectrpc/connect';
import type { Return } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  ReturnsService,
  type SettingsSchema,
} from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import type { EventBus } from '../../../services/platform/bus/event-bus.ts';
import { signingBus } from '../../../services/platform/bus/signed-bus.ts';
import { newKeyringText } from '../../../services/platform/security/keyring.ts';
import { returnsShape } from '../../../services/returns/config.ts';
import { type ReturnsOptions, startReturns } from '../../../services/returns/start.ts';
import { returnRequest, type SubmissionPart } from '../builders.ts';
import type { TestDatabase } from '../database.ts';
import { testSettings } from '../settings.ts';
import { startFakeDestinations } from './fake-destinations.ts';
import {
  actor,
  eventSignatures,
  newShop,
  type RunningTestService,
  refusal,
  runService,
} from './running-service.ts';

export const invalid = (field: string) => ({
  code: Code.InvalidArgument,
  reason: 'INVALID_FIELD',
  field,
});
export const stateForbids = {
  code: Code.FailedPrecondition,
  reason: 'STATE_FORBIDS',
  field: undefined,
};
export const notFound = (what: string) => ({
  code: Code.NotFound,
  reason: `${what}_NOT_FOUND`,
  field: undefined,
});

type BenchOption =
  | 'NODE_ENV'
  | 'FRAUD_TARGET'
  | 'COMMERCE_KEYRING'
  | 'SHOPIFY_CLIENT_ID'
  | 'SHOPIFY_CLIENT_SECRET'
  | 'SHOPIFY_EXTRA_SCOPES'
  | 'openCommerceClient'
  | 'openShopifyClient';

/** The returns service with a fake destinations service. */
export async function startReturnsBench(o: Partial<Pick<ReturnsOptions, BenchOption>> = {}) {
  const destinations = await startFakeDestinations();
  let bus: EventBus | undefined;
  let metricsUrl = '';
  const running = await runService({
    schema: 'returns',
    service: ReturnsService,
    async start({ bus: plain, DATABASE_URL }) {
      bus = plain && signingBus(plain, eventSignatures);
      const settings = testSettings(returnsShape, {
        DATABASE_URL,
        DESTINATIONS_TARGET: `127.0.0.1:${destinations.port}`,
        FRAUD_TARGET: '127.0.0.1:1',
        COMMERCE_KEYRING: newKeyringText(),
        COMMERCE_ALLOWED_ORIGINS: 'http://127.0.0.1:*',
      });
      const service = await startReturns({ ...settings, ...(plain && { bus: plain }), ...o });
      metricsUrl = service.metricsUrl;
      return service;
    },
  });
  const { client, db, events } = running;
  return {
    client,
    target: running.target,
    db,
    bus: present(bus),
    metricsUrl,
    events,
    ...requests(client, events),
    ...directChanges(db),
    async stop() {
      await running.stop();
      await destinations.stop();
    },
  };
}
export type ReturnsBench = Awaited<ReturnType<typeof startReturnsBench>>;

type ReturnId = Pick<Return, 'shopId' | 'id'>;

function requests(
  client: Client<typeof ReturnsService>,
  events: RunningTestService<typeof ReturnsService>['events'],
) {
  return {
    /** A new shop in pounds. */
    async shop(settings: MessageInitShape<typeof SettingsSchema> = {}): Promise<bigint> {
      const shopId = newShop();
      await client.updateSettings({ shopId, actor, settings: { currency: 'GBP', ...settings } });
      return shopId;
    },

    request: returnRequest,

    async submit(shopId: bigint, more: SubmissionPart = {}): Promise<Return> {
      const response = await client.submitReturn(returnRequest(shopId, more));
      return present(response.return);
    },

    /** The error of a rejected submission. */
    submitError: (shopId: bigint, more: SubmissionPart) =>
      refusal(client.submitReturn(returnRequest(shopId, more))),

    async read({ shopId, id }: ReturnId): Promise<Return> {
      const { returns } = await client.getReturns({ shopId, actor, returnIds: [id] });
      return present(returns[0]);
    },

    /** The triggers of a return since its creation, oldest first. */
    async triggers(of: ReturnId): Promise<string[]> {
      const all = await events(of.shopId);
      return all
        .filter((event) => event.returnId === of.id && event.trigger !== 'return.created')
        .map((event) => event.trigger);
    },

    /** A return's timeline, oldest first. */
    async timeline({ shopId, id }: ReturnId) {
      const { entries } = await client.getTimeline({ shopId, actor, returnId: id });
      return entries.reverse();
    },
  };
}

/** Changes in the database that only processing and expiry make otherwise. */
function directChanges({ pool }: TestDatabase) {
  return {
    async end(of: Return, state: 'closed' | 'expired' | 'cancelled'): Promise<void> {
      await pool.query(
        `update returns set state = $3, archived_at = case when $3 = 'closed' then now() end
          where shop_id = $1 and id = $2`,
        [of.shopId, of.id, state],
      );
    },

    async queue(of: Return): Promise<void> {
      const sql = 'update returns set processing = true where shop_id = $1 and id = $2';
      await pool.query(sql, [of.shopId, of.id]);
    },
  };
}

export function present<T>(value: T | undefined): T {
  if (value === undefined) throw new Error('a value is missing in a response');
  return value;
}

/** The id of the first line item. */
export function firstLine(of: Return): bigint {
  return present(of.lineItems[0]).lineItemId;
}
