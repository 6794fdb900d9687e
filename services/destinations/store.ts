import { DestinationTypeSchema } from '../../proto/gen/rms/destinations/v1/destinations_pb.ts';
import { enumText } from '../platform/enum-text.ts';
import type { Queryable } from '../platform/postgres.ts';
import { raw, type Sql, sql, unnamed } from '../platform/sql.ts';
import type { Destination, DestinationState } from './destination.ts';

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
export async function lockQuota(tx: Queryable, shopId: bigint): Promise<void> {
  await tx.query(
    'insert into shop_quotas (shop_id, destinations) values ($1, 0) on conflict (shop_id) do nothing',
    [shopId],
  );
  await tx.query('select destinations from shop_quotas where shop_id = $1 for update', [shopId]);
}

/** Returns the destination that was created with an idempotency key, and the hash of its request. */
export async function findByKey(
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
export async function insertDestination(
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
export async function updateDestination(
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
export function findDestination(db: Queryable, shopId: bigint, id: bigint) {
  return findOne(db, `select ${COLUMNS} from destinations where shop_id = $1 and id = $2`, [
    shopId,
    id,
  ]);
}

/** As {@link findDestination}, and locks the row until the end of the transaction. */
export function lockDestination(tx: Queryable, shopId: bigint, id: bigint) {
  const sql = `select ${COLUMNS} from destinations where shop_id = $1 and id = $2 for update`;
  return findOne(tx, sql, [shopId, id]);
}

/** All destinations of a shop, ordered by id. */
export async function listDestinations(db: Queryable, shopId: bigint): Promise<Destination[]> {
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
