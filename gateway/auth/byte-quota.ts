import type { Meter } from '@opentelemetry/api';
import type pg from 'pg';
import type { Logger } from '../../services/platform/log.ts';
import { createBoundedCache } from './bounded-cache.ts';
import { createLeasedLimit } from './leased-limit.ts';
import { ADMITTED, type Admission, refusedFor } from './rate-limits.ts';

/** Of inflated request bodies, for each shop and UTC day, unless configured. */
export const SHOP_MIB_PER_DAY = 2_048;

/** Bytes that each shop may send in a day, over all its keys, apps and people. */
export interface ByteQuota {
  /** Refuses a shop that is known to have used its day up. Counts nothing. */
  check(shopId: bigint): Admission;
  /** Counts inflated bytes that a shop sent. Never rejects. */
  take(shopId: bigint, bytes: number): Promise<Admission>;
  /** Forgets what this process remembers; the shared counters are rows of `rate_limits`. */
  forget(): void;
}

const KIB = 1024;
const DAY_MS = 24 * 3_600_000;
/** The row of a day outlives it, for replicas whose clocks lag. Seconds. */
const WINDOW_S = 26 * 3_600;
/** A replica takes a thousandth of the day at once: 2 MiB by default. */
const LEASE_PART = 1_000;
const MAX_SHOPS = 50_000;

/** The quota of a day, leased by replicas in whole KiB; `check` and `take` answer until UTC midnight. */
export function createByteQuota(o: {
  readonly pool: pg.Pool;
  readonly logger: Logger;
  readonly meter: Meter;
  /** MiB a shop and day. */
  readonly mibPerDay: number;
  /** How long a request waits for the count that replicas share; see `createLeasedLimit`. */
  readonly patienceMs?: number;
}): ByteQuota {
  const kibPerDay = o.mibPerDay * KIB;
  const limit = createLeasedLimit(o.pool, o.logger, {
    name: 'shop-kib',
    windowS: WINDOW_S,
    leasePart: LEASE_PART,
    ...(o.patienceMs !== undefined && { patienceMs: o.patienceMs }),
  });
  const refusals = o.meter.createCounter('shop.byte_quota.refusals', {
    description: 'Requests refused because their shop had used its bytes of the day up',
  });
  const logged = createBoundedCache<true>(MAX_SHOPS);
  const refuse = (shopId: bigint, key: string): Admission => {
    refusals.add(1);
    const leftMs = DAY_MS - (Date.now() % DAY_MS);
    if (!logged.get(key)) o.logger.warn({ shopId }, 'byte quota of the day used up');
    logged.set(key, true, leftMs);
    return refusedFor(leftMs);
  };
  return {
    check(shopId) {
      const key = keyOf(shopId);
      return limit.isUsedUp(key) ? refuse(shopId, key) : ADMITTED;
    },
    async take(shopId, bytes) {
      const key = keyOf(shopId);
      const { admitted } = await limit.take(key, kibPerDay, Math.ceil(bytes / KIB));
      return admitted ? ADMITTED : refuse(shopId, key);
    },
    forget: () => limit.forget(),
  };
}

function keyOf(shopId: bigint): string {
  return `${shopId}:${new Date().toISOString().slice(0, 10)}`;
}
