import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import pg from 'pg';
import type { Operation } from '../../services/contract/operation.ts';
import { OPERATIONS } from '../../services/contract/operations.ts';
import { FAKE, sampleSubscription } from '../../test/kit/gateway/fake-objects.ts';
import { type Received, restClient, type Sent } from '../../test/kit/gateway/rest-client.ts';
import { startTestGateway, type TestGateway } from '../../test/kit/gateway/test-gateway.ts';
import { VALID_BODIES } from '../../test/kit/gateway/valid-bodies.ts';
import { until } from '../../test/kit/until.ts';
import { parseKey } from '../auth/key-format.ts';
import { isAudited } from './audited.ts';

let under: TestGateway;
let send: (sent: Sent) => Promise<Received>;
beforeAll(async () => {
  under = await startTestGateway();
  send = restClient(under);
});
afterEach(() => under.resetServices());
afterAll(() => under.stop());

const BODIES: Readonly<Partial<Record<Operation['id'], object>>> = {
  ...VALID_BODIES,
  assessDispositions: { items: [{ line_item_id: 21 }, { line_item_id: 1_000 }] },
};
const IDS: Readonly<Partial<Record<Operation['id'], bigint>>> = {
  getReplay: FAKE.replay,
  cancelReplay: FAKE.replay,
  getDestination: FAKE.destination,
  updateDestination: FAKE.destination,
  createFraudReport: FAKE.returns.open,
  listEffects: FAKE.returns.open,
  recordLabel: FAKE.returns.open,
  updateLabel: FAKE.label,
  recordGiftCard: FAKE.returns.open,
  processReturn: FAKE.returns.open,
};
/** The expected subject of an entry; by default the id in the path. */
const SUBJECTS: Readonly<Partial<Record<Operation['id'], string>>> = {
  createWebhook: String(FAKE.webhook),
  previewReplay: '',
  startReplay: String(FAKE.replay),
  replayDelivery: `${FAKE.webhook} ${FAKE.delivery}`,
  assessDispositions: '21 1000',
  gradeItems: '21',
  createCart: '',
};

function requestOf({ id, method, path }: Operation, objectId = IDS[id] ?? FAKE.webhook): Sent {
  const named = path
    .replace('{id}', String(objectId))
    .replace('{token}', FAKE.cartToken)
    .replace('{delivery_id}', objectId === 999n ? 'msg_none' : FAKE.delivery);
  const query = id === 'getReturnDetails' ? '?return_id=11' : '';
  const json = BODIES[id];
  return { method, path: `/api/v1${named}${query}`, ...(json && { json }) };
}

/** Sends a request from an IPv6 address with a new request id, and returns the id. */
async function sendTracked(sent: Sent): Promise<{ requestId: string; response: Received }> {
  const requestId = randomUUID();
  const headers = { 'x-request-id': requestId, 'x-forwarded-for': '2001:db8:1:2:3:4:5:6' };
  return { requestId, response: await send({ ...sent, headers }) };
}

interface Entry {
  readonly action: string;
  readonly subject: string;
  readonly detail: { readonly call: string; readonly phase: string; readonly status?: number };
}

async function entriesOf(requestId: string): Promise<Entry[]> {
  const { rows } = await under.database.pool.query<Entry>(
    `select shop_id::text as "shopId", actor_kind as "actorKind", actor_id as "actorId", source, action, subject, detail
       from audit_log where request_id = $1 order by id`,
    [requestId],
  );
  return rows;
}

/** Waits for the two entries of a write. */
async function bothOf(requestId: string): Promise<Entry[]> {
  return until(async () => {
    const entries = await entriesOf(requestId);
    return entries.length > 1 && entries;
  });
}

const WRITES = OPERATIONS.filter(isAudited);
const READS = OPERATIONS.filter((operation) => !isAudited(operation));

describe('the audit log of REST', () => {
  test.each(WRITES)(
    '$id: has actor, address, request id, subject and outcome',
    async (operation) => {
      const { requestId, response } = await sendTracked(requestOf(operation));
      expect(response.status).toBe(operation.success.status);
      const [begun, ended] = await bothOf(requestId);
      const common = {
        shopId: '1',
        actorKind: 'api_key',
        actorId: parseKey(under.key)?.keyId,
        source: '2001:db8:1:2::/64',
        action: `rest.${operation.id}`,
      };
      expect(begun).toMatchObject({ ...common, detail: { phase: 'asked', version: '2026-07' } });
      expect(ended).toMatchObject({
        ...common,
        subject: SUBJECTS[operation.id] ?? String(IDS[operation.id] ?? FAKE.webhook),
        detail: { call: begun?.detail.call, phase: 'done', status: operation.success.status },
      });
      expect(JSON.stringify([begun, ended])).not.toMatch(/whsec_|ttttt/);
    },
  );

  test('a change has the former and the new values, without secrets', async () => {
    under.services.webhooks.updateSubscription = () => ({
      subscription: { ...sampleSubscription(), url: 'https://new.example.com/in?token=s3cret' },
      previous: { ...sampleSubscription(), url: 'https://u:pw@old.example.com/in' },
    });
    const json = { ...VALID_BODIES.updateWebhook, url: 'https://new.example.com/in?token=s3cret' };
    const { requestId } = await sendTracked({ method: 'PUT', path: '/api/v1/webhooks/41', json });
    const [begun, ended] = await bothOf(requestId);
    expect(ended?.detail).toMatchObject({
      phase: 'done',
      changes: [
        {
          field: 'url',
          from: 'https://old.example.com/in',
          to: 'https://new.example.com/in?token=…',
        },
      ],
    });
    expect(JSON.stringify([begun, ended])).not.toMatch(/s3cret|pw@/);
  });

  test.each(READS)('$id is a read and has no entry', async (operation) => {
    const { requestId, response } = await sendTracked(requestOf(operation));
    expect(response.status).toBe(200);
    // When the entry of a later write exists, all earlier entries would exist too.
    const later = await sendTracked(requestOf(WRITES[0] ?? operation));
    await bothOf(later.requestId);
    expect(await entriesOf(requestId)).toEqual([]);
  });

  test.each(WRITES.filter(({ path }) => path.includes('{id}')))(
    '$id with an id that does not exist has the phase refused',
    async (operation) => {
      const { requestId, response } = await sendTracked(requestOf(operation, 999n));
      expect(response.status).toBe(404);
      const [, ended] = await bothOf(requestId);
      expect(ended).toMatchObject({ detail: { phase: 'refused', status: 404 } });
    },
  );

  test('an error inside a 200 has the phase refused', async () => {
    const path = `/api/v1/warehouse/return/${FAKE.returns.flagged}/process`;
    const { requestId } = await sendTracked({ method: 'POST', path });
    const [, ended] = await bothOf(requestId);
    expect(ended).toMatchObject({ detail: { phase: 'refused', status: 200 } });
  });

  test('a call to which a service does not respond has the phase unknown', async () => {
    under.services.carts.createCart = () => {
      throw new Error('gone');
    };
    const { requestId } = await sendTracked({ path: '/api/v1/cart', json: { cart: [1] } });
    const [, ended] = await bothOf(requestId);
    expect(ended).toMatchObject({ detail: { phase: 'unknown', status: 500 } });
  });

  test('an entry is committed before the service is called', async () => {
    const requestId = randomUUID();
    let seen: Entry[] = [];
    const { createCart } = under.services.carts;
    under.services.carts.createCart = async (request, context) => {
      seen = await entriesOf(requestId);
      return createCart?.(request, context) ?? {};
    };
    const headers = { 'x-request-id': requestId };
    await send({ path: '/api/v1/cart', json: { cart: [1] }, headers });
    expect(seen).toMatchObject([{ action: 'rest.createCart', detail: { phase: 'asked' } }]);
  });

  test('nothing is changed while the audit log cannot be written', async () => {
    const migrator = new pg.Client({ connectionString: under.database.migratorUrl });
    await migrator.connect();
    let calls = 0;
    under.services.carts.createCart = () => {
      calls += 1;
      return {};
    };
    await migrator.query('revoke insert on gateway.audit_log from rms_gateway');
    const { status } = await send({ path: '/api/v1/cart', json: { cart: [1] } });
    const read = await send({ path: '/api/v1/webhooks' });
    await migrator.query('grant insert on gateway.audit_log to rms_gateway');
    await migrator.end();
    expect({ isServerError: status >= 500, calls, read: read.status }).toEqual({
      isServerError: true,
      calls: 0,
      read: 200,
    });
  });
});
