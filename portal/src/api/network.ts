let isReached = false;

/**
 * Whether the browser has no network. With a VPN or in a local network it may say so although the service answers, so an
 * answer counts for more.
 */
export function isOffline(): boolean {
  return !navigator.onLine && !isReached;
}

/** Calls `fetch`, and notes whether an answer comes while the browser says that it is offline. */
export async function fetchNoted(...request: Parameters<typeof fetch>): Promise<Response> {
  const wasOnline = navigator.onLine;
  const response = await fetch(...request);
  isReached = !wasOnline && !navigator.onLine;
  return response;
}

/** The address of the page after the sign-out. It reads no session. */
export const SIGNED_OUT = '/portal/signed-out';

let left = false;

/**
 * Leaves the page, because its session has ended or is at another shop. From now on the page makes no calls, which would
 * be rejected.
 */
export function leave(to = SIGNED_OUT): void {
  left = true;
  // The browser may keep this page, and show it again when the user goes back.
  window.addEventListener('pageshow', ({ persisted }) => persisted && window.location.reload());
  window.location.assign(to);
}

/** Whether the browser is leaving this page. */
export function hasLeft(): boolean {
  return left;
}
