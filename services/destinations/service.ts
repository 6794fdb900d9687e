import { createHash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import type { ConnectRouter } from '@connectrpc/connect';
import type pg from 'pg';
import type { Actor } from '../../proto/gen/rms/common/v1/actor_pb.ts';
import {
  type DestinationSchema,
  DestinationsService,
  DestinationTypeSchema,
  LinkLocationRequestSchema,
  UpdateDestinationRequestSchema,
} from '../../proto/gen/rms/destinations/v1/destinations_pb.ts';
import { DestinationChangedSchema } from '../../proto/gen/rms/events/v1/events_pb.ts';
import { appendEvents } from '../platform/outbox/append.ts';
import {
  inTransaction,
  type Queryable,
  violatedConstraint,
} from '../platform/postgres/postgres.ts';
import { raw, type Sql, sql, unnamed } from '../platform/postgres/sql.ts';
import {
  type RunningService,
  type ServiceOptions,
  startService,
} from '../platform/process/service.ts';
import { enumText } from '../platform/values/enum-text.ts';
import { claimKey, type KeyUse, keyUseOf, startKeyPurge } from '../platform/values/idempotency.ts';
import { parseInput } from '../platform/values/input.ts';
import {
  applyEdit,
  type Destination,
  type DestinationState,
  destinationEdit,
  destinationNotFound,
  keyConflict,
  locationLink,
  type NewDestination,
  newDestination,
  quotaExceeded,
} from './destination.ts';

/** Starts the destinations service. It calls no other service. */
export function startDestinations(options: ServiceOptions): Promise<RunningService> {
  return startService(
    {
      name: 'destinations',
      publishes: true,
      build: ({ pool, backgroundPool, logger }) => ({
        routes: destinationRoutes(pool),
        workers: async () => [startKeyPurge({ pool: backgroundPool, logger })],
      }),
    },
    options,
  );
}

function destinationRoutes(pool: pg.Pool): (router: ConnectRouter) => void {
  return (router) => {
    router.service(DestinationsService, {
      async createDestination(request) {
        const created = await createDestination(pool, parseInput(newDestination, request));
        return { destination: toMessage(created) };
      },

      async updateDestination(request) {
        const edit = parseInput(destinationEdit, request);
        const { destination, previous } = await changeDestination(pool, edit, {
          id: edit.destinationId,
          use: keyUseOf('UpdateDestination', UpdateDestinationRequestSchema, request),
          change: (current) => applyEdit(current, edit),
        });
        return {
          destination: toMessage(destination),
          ...(previous && { previous: toMessage(previous) }),
        };
      },

      async linkLocation(request) {
        const link = parseInput(locationLink, request);
        const { destination } = await changeDestination(pool, link, {
          id: link.destinationId,
          use: keyUseOf('LinkLocation', LinkLocationRequestSchema, request),
          change: ({ id, updatedAt, ...state }) => ({
            ...state,
            providerLocationId: link.providerLocationId,
          }),
        });
        return { destination: toMessage(destination) };
      },

      async getDestination({ shopId, destinationId }) {
        const found = await findDestination(pool, shopId, destinationId);
        if (!found) throw destinationNotFound(destinationId);
        return { destination: toMessage(found) };
      },

      async listDestinations({ shopId }) {
        const destinations = await listDestinations(pool, shopId);
        return { destinations: destinations.map(toMessage) };
      },
    });
  };
}

function toMessage(destination: Destination): MessageInitShape<typeof DestinationSchema> {
  return {
    ...destination,
    providerLocationId: destination.providerLocationId ?? 0n,
    updatedAt: timestampFromDate(destination.updatedAt),
  };
}

interface Caller {
  readonly shopId: bigint;
  readonly actor: Actor;
}

/**
 * Adds a destination once for each idempotency key. A repeated call returns the destination in its current state.
 *
 * @throws DomainError ALREADY_EXISTS for a key that was used with other content; RESOURCE_EXHAUSTED when the shop has
 *   1,000 destinations.
 */
async function createDestination(pool: pg.Pool, input: NewDestination) {
  const { shopId, actor, idempotencyKey: key, ...content } = input;
  const requestHash = createHash('sha256').update(JSON.stringify(content)).digest();
  return inTransaction(pool, async (tx) => {
    await lockQuota(tx, shopId);
    const existing = await findByKey(tx, shopId, key);
    if (existing && !existing.requestHash.equals(requestHash)) throw keyConflict();
    if (existing) return existing.destination;

    const state = { ...content, providerLocationId: undefined };
    const created = await insertDestination(tx, shopId, { state, key, requestHash }).catch(
      (error: unknown) => {
        throw violatedConstraint(error) === 'destinations_quota' ? quotaExceeded() : error;
      },
    );
    await announce(tx, { shopId, actor }, created.id);
    return created;
  });
}

/**
 * Changes one destination under its lock. A change without effect writes nothing and publishes no event. A repeated
 * call with the same idempotency key changes nothing.
 *
 * @returns the destination, and as `previous` its state before the change; absent when the call changed nothing.
 * @throws DomainError NOT_FOUND when the shop has no such destination; IDEMPOTENCY_CONFLICT.
 */
async function changeDestination(
  pool: pg.Pool,
  caller: Caller,
  o: {
    readonly id: bigint;
    readonly use?: KeyUse | undefined;
    readonly change: (current: Destination) => DestinationState;
  },
): Promise<{ readonly destination: Destination; readonly previous?: Destination }> {
  return inTransaction(pool, async (tx) => {
    const isFirst = await claimKey(tx, o.use, o.id);
    const current = await lockDestination(tx, caller.shopId, o.id);
    if (!current) throw destinationNotFound(o.id);
    if (!isFirst) return { destination: current };
    const { id, updatedAt, ...before } = current;
    const state = o.change(current);
    if (isDeepStrictEqual(before, state)) return { destination: current };

    const changed = await updateDestination(tx, caller.shopId, { id, state });
    await announce(tx, caller, id);
    return { destination: changed, previous: current };
  });
}

async function announce(tx: Queryable, caller: Caller, destinationId: bigint): Promise<void> {
  const value = create(DestinationChangedSchema, { destinationId });
  await appendEvents(tx, [
    {
      trigger: 'destination.changed',
      shopId: caller.shopId,
      key: `${caller.shopId}:${destinationId}`,
      actor: caller.actor,
      detail: { case: 'destination', value },
    },
  ]);
}

const typeText = enumText(DestinationTypeSchema);

interface Row {
  readonly id: bigint;
  readonly name: string;
  readonly type: string;
  readonly enabled: boolean;
  readonly provider_location_id: bigint | null;
  readonly recipient: string;
  readonly company: string;
  readonly address1: string;
  readonly address2: string;
  readonly city: string;
  readonly state: string;
  readonly zip: string;
  readonly country: string;
  readonly country_code: string;
  readonly phone: string;
  readonly updated_at: Date;
}

const STATE = `name, type, enabled, provider_location_id, recipient, company, address1, address2,
  city, state, zip, country, country_code, phone`;
const COLUMNS = `id, ${STATE}, updated_at`;

/** Until the end of the transaction, locks the creation of destinations of this shop. */
async function lockQuota(tx: Queryable, shopId: bigint): Promise<void> {
  await tx.query(
    'insert into shop_quotas (shop_id, destinations) values ($1, 0) on conflict (shop_id) do nothing',
    [shopId],
  );
  await tx.query('select destinations from shop_quotas where shop_id = $1 for update', [shopId]);
}

/** Returns the destination that was created with an idempotency key, and the hash of its request. */
async function findByKey(
  db: Queryable,
  shopId: bigint,
  key: string,
): Promise<{ destination: Destination; requestHash: Buffer } | undefined> {
  const { rows } = await db.query<Row & { request_hash: Buffer }>(
    `select ${COLUMNS}, request_hash from destinations where shop_id = $1 and idempotency_key = $2`,
    [shopId, key],
  );
  const [row] = rows;
  return row && { destination: toDestination(row), requestHash: row.request_hash };
}

/** Stores a new destination and counts it. The constraint `destinations_quota` rejects it above the maximum. */
async function insertDestination(
  tx: Queryable,
  shopId: bigint,
  o: { state: DestinationState; key: string; requestHash: Buffer },
): Promise<Destination> {
  const { rows } = await tx.query<Row>(
    unnamed(sql`
     with counted as (
       update shop_quotas set destinations = destinations + 1 where shop_id = ${shopId}
     )
     insert into destinations (shop_id, ${raw(STATE)}, idempotency_key, request_hash)
     values (${shopId}, ${valuesOf(o.state)}, ${o.key}, ${o.requestHash})
     returning ${raw(COLUMNS)}`),
  );
  return onlyRow(rows);
}

/** Writes the whole state of a destination. The caller must have locked it. */
async function updateDestination(
  tx: Queryable,
  shopId: bigint,
  o: { id: bigint; state: DestinationState },
): Promise<Destination> {
  const { rows } = await tx.query<Row>(
    unnamed(sql`
     update destinations
        set (${raw(STATE)}, updated_at) = row (${valuesOf(o.state)}, now())
      where shop_id = ${shopId} and id = ${o.id}
     returning ${raw(COLUMNS)}`),
  );
  return onlyRow(rows);
}

/** The destination with this id; undefined when the shop has none. */
function findDestination(db: Queryable, shopId: bigint, id: bigint) {
  return findOne(db, `select ${COLUMNS} from destinations where shop_id = $1 and id = $2`, [
    shopId,
    id,
  ]);
}

/** As {@link findDestination}, and locks the row until the end of the transaction. */
function lockDestination(tx: Queryable, shopId: bigint, id: bigint) {
  const sql = `select ${COLUMNS} from destinations where shop_id = $1 and id = $2 for update`;
  return findOne(tx, sql, [shopId, id]);
}

/** All destinations of a shop, ordered by id. */
async function listDestinations(db: Queryable, shopId: bigint): Promise<Destination[]> {
  const { rows } = await db.query<Row>(
    `select ${COLUMNS} from destinations where shop_id = $1 order by id`,
    [shopId],
  );
  return rows.map(toDestination);
}

async function findOne(
  db: Queryable,
  sql: string,
  bound: readonly bigint[],
): Promise<Destination | undefined> {
  const { rows } = await db.query<Row>(sql, [...bound]);
  return rows[0] && toDestination(rows[0]);
}

/** The values of the columns {@link STATE}. */
function valuesOf({ address, ...state }: DestinationState): Sql {
  return sql`${state.name}, ${typeText.toText(state.type)}, ${state.enabled},
    ${state.providerLocationId}, ${address.name}, ${address.company}, ${address.address1},
    ${address.address2}, ${address.city}, ${address.state}, ${address.zip},
    ${address.country}, ${address.countryCode}, ${address.phone}`;
}

function onlyRow(rows: readonly Row[]): Destination {
  const [row] = rows;
  if (!row) throw new Error('the statement returned no row');
  return toDestination(row);
}

function toDestination(row: Row): Destination {
  return {
    id: row.id,
    name: row.name,
    type: typeText.fromText(row.type),
    enabled: row.enabled,
    providerLocationId: row.provider_location_id ?? undefined,
    address: {
      name: row.recipient,
      company: row.company,
      address1: row.address1,
      address2: row.address2,
      city: row.city,
      state: row.state,
      zip: row.zip,
      country: row.country,
      countryCode: row.country_code,
      phone: row.phone,
    },
    updatedAt: row.updated_at,
  };
}
