import { create } from '@bufbuild/protobuf';
import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { ConnectRequestSchema } from '../../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import { type Return, ReturnState } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { RestockMode } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { createTestDatabase, type TestDatabase } from '../../../test/kit/database.ts';
import {
  actor,
  destinations,
  endLeases,
  newReturn,
  newShop,
  reload,
  requestProcessing,
  runDeps,
  runDue,
} from '../../../test/kit/services/processing.ts';
import { until } from '../../../test/kit/until.ts';
import { newKeyringText, parseKeyring } from '../../platform/keyring.ts';
import { connectShop } from '../commerce/connections.ts';
import { createEmbeddedCommerce } from '../commerce/embedded.ts';
import { CommerceFailure, type CommerceProvider } from '../commerce/provider.ts';
import type { Providers } from '../commerce/providers.ts';
import type { RunDeps } from './run.ts';

// A shop gets another commerce provider while a run of processing is between its plan and its first request.

const FORMER = 'https://former.example.com/';
const NEW = 'https://new.example.com/';

let db: TestDatabase;
let of: Return;
/** The addresses of the providers that were requested a refund, in order. */
let requested: string[];
beforeAll(async () => {
  db = await createTestDatabase('returns');
});
afterAll(() => db.drop());
beforeEach(async () => {
  requested = [];
  // With this mode a run asks for the location of the goods after its plan.
  const shopId = await newShop(db.pool, { restockMode: RestockMode.WEBHOOK });
  of = await newReturn(db.pool, shopId, { destinationId: 3n });
  await connect(FORMER);
  await requestProcessing(db.pool, of);
});

const keyring = parseKeyring(newKeyringText());
const policy = { allowedOrigins: [], stackPorts: () => [] };
const connect = (url: string) =>
  connectShop(
    { pool: db.pool, keyring, policy },
    create(ConnectRequestSchema, { shopId: of.shopId, actor, url }),
  );

/** The former provider makes the refund, and its answer is lost. Neither provider knows what the other made. */
function providerAt(url: string): CommerceProvider {
  const ledger = createEmbeddedCommerce(db.pool);
  return {
    ...ledger,
    find: async () => undefined,
    create: async (request, signal) => {
      requested.push(url);
      if (url === FORMER) throw new CommerceFailure('passing', 'the answer is lost');
      return ledger.create(request, signal);
    },
  };
}

const connected: Providers = {
  of: async (tx, { shopId }) => {
    const { rows } = await tx.query<{ url: string }>(
      'select url from commerce_connections where shop_id = $1',
      [shopId],
    );
    return rows[0] && providerAt(rows[0].url);
  },
  connected: async () => undefined,
};

/** Runs the job, and does something each time after the plan and before the first request. */
async function run(afterPlan: () => Promise<unknown>): Promise<void> {
  const deps: RunDeps = {
    ...runDeps(db.pool, createEmbeddedCommerce(db.pool)),
    providers: connected,
    destinations: {
      getDestination: async (request, options) => {
        await afterPlan();
        return destinations.getDestination(request, options);
      },
    },
  };
  await until(async () => {
    await endLeases(db.pool);
    await runDue(deps);
    return (await reload(db.pool, of)).state === ReturnState.CLOSED;
  });
}

test('the run requests nothing of the former provider, and the next run uses the new one', async () => {
  await run(() => connect(NEW));
  expect(requested).toEqual([NEW]);
});

test('a request waits for a change that is being made', async () => {
  const operator = await db.pool.connect();
  let hasBegun = false;
  await run(async () => {
    if (hasBegun) return;
    hasBegun = true;
    await operator.query('begin');
    await operator.query('update commerce_connections set url = $2 where shop_id = $1', [
      of.shopId,
      NEW,
    ]);
    const waiting = `select from pg_stat_activity
                      where datname = current_database() and wait_event_type = 'Lock' and query like '%for share%'`;
    until(async (see) => see((await db.pool.query(waiting)).rowCount) === 1)
      .finally(() => operator.query('commit'))
      .catch(() => {});
  });
  operator.release();
  expect([...new Set(requested)]).toEqual([NEW]);
});
