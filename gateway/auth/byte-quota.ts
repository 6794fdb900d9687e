import type { Meter } from '@opentelemetry/api';
import type pg from 'pg';
import type { Logger } from '../../services/platform/log.ts';
import { createBoundedCache } from './bounded-cache.ts';
import { createLeasedLimit } from './leased-limit.ts';
import { ADMITTED, type Admission, refusedFor } from './rate-limits.ts';

/** The bytes that each shop may send per day, with all its keys, apps and users together. */
export interface ByteQuota {
  /** Refuses a shop if this process knows that its quota is used up. Counts nothing. */
  check(shopId: bigint): Admission;
  /** Counts bytes that a shop sent, after decompression. Never rejects. */
  take(shopId: bigint, bytes: number): Promise<Admission>;
  /** Clears the state of this process; the shared counters are rows of `rate_limits`. */
  forget(): void;
}

const KIB = 1024;
const DAY_MS = 24 * 3_600_000;
/** The row of a day is kept longer than the day, because the clocks of replicas may lag. Seconds. */
const WINDOW_S = 26 * 3_600;
/** A replica leases a thousandth of the quota at a time; 2 MiB by default. */
const LEASE_DIVISOR = 1_000;
const MAX_SHOPS = 50_000;

/** The quota of a day; replicas lease it in whole KiB. A refusal lasts until midnight UTC. */
export function createByteQuota(o: {
  readonly pool: pg.Pool;
  readonly logger: Logger;
  readonly meter: Meter;
  /** MiB per shop and day. */
  readonly mibPerDay: number;
  /** How long a request waits for the count that replicas share; see `createLeasedLimit`. */
  readonly timeoutMs?: number | undefined;
}): ByteQuota {
  const kibPerDay = o.mibPerDay * KIB;
  const limit = createLeasedLimit(o.pool, o.logger, {
    name: 'shop-kib',
    windowS: WINDOW_S,
    leaseDivisor: LEASE_DIVISOR,
    timeoutMs: o.timeoutMs,
  });
  const refusals = o.meter.createCounter('shop.byte_quota.rejections', {
    description: 'Requests refused because the daily byte quota of their shop was used up',
  });
  const logged = createBoundedCache<true>(MAX_SHOPS);
  const refuse = (shopId: bigint, key: string): Admission => {
    refusals.add(1);
    const leftMs = DAY_MS - (Date.now() % DAY_MS);
    if (!logged.get(key)) o.logger.warn({ shopId }, 'daily byte quota used up');
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
