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
