import type { ByteQuota } from './byte-quota.ts';
import { ADMITTED, type Admission } from './rate-limits.ts';

/** Inflated bytes of a body that one point of a rate limit pays for. */
export const BYTES_PER_POINT = 64 * 1024;

/** Answers above this cost further points; bytes. */
const LARGE_ANSWER = 1024 * 1024;
/** Bytes of a large answer that one point pays for: about one and a half times the CPU of a small read. */
const ANSWER_BYTES_PER_POINT = 256 * 1024;

/** The points that an answer costs beyond the one that its request has paid. */
export function pointsOfAnswer(bytes: number): number {
  return bytes > LARGE_ANSWER ? Math.ceil(bytes / ANSWER_BYTES_PER_POINT) : 0;
}

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
