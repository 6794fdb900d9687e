import type { ServerResponse } from 'node:http';

/**
 * Bounds the open requests of each caller, so that one caller cannot use all slots of a load.
 *
 * @param max maximum number of open requests of a caller.
 * @returns a function that counts a request until its response closes. It returns false when the caller has too many.
 */
export function createConcurrentShare(
  max: number,
): (caller: string, res: ServerResponse) => boolean {
  const open = new Map<string, number>();
  return (caller, res) => {
    const used = open.get(caller) ?? 0;
    if (used >= max) return false;
    open.set(caller, used + 1);
    res.once('close', () => {
      const left = (open.get(caller) ?? 0) - 1;
      if (left > 0) open.set(caller, left);
      else open.delete(caller);
    });
    return true;
  };
}
