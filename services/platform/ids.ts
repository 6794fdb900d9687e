/** Largest id: what a JSON number holds exactly. */
export const MAX_ID = 2n ** 53n - 1n;
