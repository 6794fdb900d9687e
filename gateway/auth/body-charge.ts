import type { ByteQuota } from './byte-quota.ts';
import { ADMITTED, type Admission } from './rate-limits.ts';

/** One point of a rate limit pays for this much of a body. Bytes. */
export const BYTES_PER_POINT = 64 * 1024;

/** Responses above this size cost additional points. Bytes. */
const LARGE_RESPONSE = 1024 * 1024;
/**
 * One point pays for this much of a large response. Its CPU cost is about one and a half times that of a small read.
 * Bytes.
 */
const RESPONSE_BYTES_PER_POINT = 256 * 1024;

/** The points that a response costs in addition to the point of its request. */
export function pointsOfResponse(bytes: number): number {
  return bytes > LARGE_RESPONSE ? Math.ceil(bytes / RESPONSE_BYTES_PER_POINT) : 0;
}

export interface BodyCharge {
  /** Checks before the body is read: has the shop used up its bytes of the day? Counts nothing. */
  check(): Admission;
  /**
   * Counts a body that was read, even if it is invalid. Never throws.
   *
   * @param bytes as sent or after decompression, whichever are more.
   */
  take(bytes: number): Promise<Admission>;
}

/**
 * Charges for a body: one point for each 64 KiB, and its bytes from the shop's daily quota. The caller of this function
 * took the first point before it read the body, so that point is not charged here.
 *
 * @param o.takePoints takes additional points from the caller's rate limit.
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
