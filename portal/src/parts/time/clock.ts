/** How far the clock of the browser is behind that of the service. Milliseconds. */
let behindMs = 0;

/** Takes the time of the service from a response. @param date its header `Date`. */
export function setClock(date: string | null): void {
  const at = Date.parse(date ?? '');
  if (!Number.isNaN(at)) behindMs = at - Date.now();
}

/** The time of the service, because the clock of a browser may be wrong by months. Milliseconds. */
export function now(): number {
  return Date.now() + behindMs;
}
