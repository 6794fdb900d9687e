import { toBinary } from '@bufbuild/protobuf';
import pg from 'pg';
import { ReturnSchema } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { sampleEvent } from '../../../services/contract/sample-event.ts';
import { appendEvents, type NewEvent } from '../../../services/platform/outbox/append.ts';
import { inTransaction } from '../../../services/platform/postgres/postgres.ts';
import { serveParent } from '../ipc.ts';
import { createPublisher } from './publishing.ts';

const DATABASE_URL = process.env.DATABASE_URL ?? '';
/** Connections have no time limit: on a busy machine events are late, and the latency shows this. */
const pool = new pg.Pool({
  connectionString: DATABASE_URL,
  max: 16,
  application_name: 'bench-publisher',
});
const TRIGGER = 'return.closed';

let lastReturn = 0n;

/** The event of a closed return, with its whole state and a new key. */
function newEvent(shopId: bigint): NewEvent {
  lastReturn += 1n;
  const { actor, snapshot } = sampleEvent(TRIGGER, shopId);
  if (!actor || !snapshot) throw new Error('the sample event has no snapshot');
  return {
    trigger: TRIGGER,
    shopId,
    returnId: lastReturn,
    revision: 3n,
    key: `${shopId}:${lastReturn}`,
    actor,
    snapshot: toBinary(ReturnSchema, { ...snapshot, id: lastReturn }),
  };
}

/** Appends an event for each of the shops in one transaction, like the services. Returns their ids. */
async function append(shops: readonly bigint[]): Promise<string[]> {
  return inTransaction(pool, (tx) => appendEvents(tx, shops.map(newEvent)));
}

serveParent(createPublisher(append));
