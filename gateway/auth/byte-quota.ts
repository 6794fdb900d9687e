import type { Meter } from '@opentelemetry/api';
import type pg from 'pg';
import type { Logger } from '../../services/platform/telemetry/log.ts';
import { createBoundedCache } from './bounded-cache.ts';
import { createLeasedLimit } from './leased-limit.ts';
import { ADMITTED, type Admission, rejectedFor } from './rate-limits.ts';

/** The bytes that each shop may send per day, with all its keys, apps and users together. */
export interface ByteQuota {
  /** Rejects when this process knows that the shop has used up its quota. Counts nothing. */
  check(shopId: bigint): Admission;
  /** Counts bytes that a shop sent, after decompression. Never throws. */
  take(shopId: bigint, bytes: number): Promise<Admission>;
  /** Clears the state of this process; the shared counters are rows of `rate_limits`. */
  reset(): void;
}

const KIB = 1024;
const DAY_MS = 24 * 3_600_000;
/** Lifetime of the row of a day; longer than a day, because the clocks of replicas may differ. Seconds. */
const WINDOW_S = 26 * 3_600;
/** Divisor of a lease: a replica leases a thousandth of the quota at a time, by default 2 MiB. */
const LEASE_DIVISOR = 1_000;
const MAX_SHOPS = 50_000;

/**
 * Creates the daily quota. Replicas lease it in whole KiB. A shop that has used up its quota is rejected until midnight
 * UTC.
 */
export function createByteQuota(o: {
  readonly pool: pg.Pool;
  readonly logger: Logger;
  readonly meter: Meter;
  /** MiB per shop and day. */
  readonly mibPerDay: number;
  /** Maximum time that a request waits for the shared counter; see `createLeasedLimit`. Milliseconds. */
  readonly timeoutMs?: number | undefined;
}): ByteQuota {
  const kibPerDay = o.mibPerDay * KIB;
  const limit = createLeasedLimit(o.pool, o.logger, {
    name: 'shop-kib',
    windowS: WINDOW_S,
    leaseDivisor: LEASE_DIVISOR,
    timeoutMs: o.timeoutMs,
  });
  const rejections = o.meter.createCounter('shop.byte_quota.rejections', {
    description: 'Requests rejected because the daily byte quota of their shop was used up',
  });
  const logged = createBoundedCache<true>(MAX_SHOPS);
  const reject = (shopId: bigint, key: string): Admission => {
    rejections.add(1);
    const leftMs = DAY_MS - (Date.now() % DAY_MS);
    if (!logged.get(key)) o.logger.warn({ shopId }, 'daily byte quota used up');
    logged.set(key, true, leftMs);
    return rejectedFor(leftMs);
  };
  return {
    check(shopId) {
      const key = keyOf(shopId);
      return limit.isUsedUp(key) ? reject(shopId, key) : ADMITTED;
    },
    async take(shopId, bytes) {
      const key = keyOf(shopId);
      const { admitted } = await limit.take(key, kibPerDay, Math.ceil(bytes / KIB));
      return admitted ? ADMITTED : reject(shopId, key);
    },
    reset: () => limit.reset(),
  };
}

function keyOf(shopId: bigint): string {
  return `${shopId}:${new Date().toISOString().slice(0, 10)}`;
}
