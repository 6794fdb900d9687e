/** The address of the page after the sign-out. It reads no session. */
export const SIGNED_OUT = '/portal/signed-out';

let left = false;

/**
 * Leaves the page, because its session has ended or is at another shop. From now on the page makes no calls, which would
 * be rejected.
 */
export function leave(to = SIGNED_OUT): void {
  left = true;
  window.location.assign(to);
}

/** Whether the browser is leaving this page. */
export function hasLeft(): boolean {
  return left;
}
