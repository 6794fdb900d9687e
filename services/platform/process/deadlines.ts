/** How many times longer deadlines are than in production: 1, unless tests set DEADLINE_SCALE. */
export const DEADLINE_SCALE = Number(process.env.DEADLINE_SCALE || 1);

/**
 * A deadline inside the system. Tests make all of them longer together, because their machine may stand still for
 * seconds, and they assert what happens, not how fast. A deadline of the contract, such as that of a delivery, is not
 * scaled.
 *
 * @param ms in production. Milliseconds.
 */
export const deadline = (ms: number): number => ms * DEADLINE_SCALE;
