import type { ByteQuota } from './byte-quota.ts';
import { ADMITTED, type Admission } from './rate-limits.ts';

/** Inflated bytes of a body that one point of a rate limit pays for. */
export const BYTES_PER_POINT = 64 * 1024;

export interface BodyCharge {
  /** Refuses, before anything is read, a shop that has used its day up. Counts nothing. */
  check(): Admission;
  /** Counts a body that was read, whatever became of it. @param bytes inflated. Never rejects. */
  take(bytes: number): Promise<Admission>;
}

/**
 * What a body costs: one point for each 64 KiB, of which the first was taken before it was read, and its
 * bytes of the shop's day.
 *
 * @param o.takePoints counts further points of the caller's rate limit.
 */
export function bodyCharge(o: {
  readonly quota: ByteQuota;
  readonly shopId: bigint;
  readonly takePoints: (points: number) => Promise<Admission>;
}): BodyCharge {
  return {
    check: () => o.quota.check(o.shopId),
    async take(bytes) {
      if (bytes === 0) return ADMITTED;
      const further = Math.ceil(bytes / BYTES_PER_POINT) - 1;
      const counted = further > 0 ? await o.takePoints(further) : ADMITTED;
      const quota = await o.quota.take(o.shopId, bytes);
      return counted.admitted ? quota : counted;
    },
  };
}
