import { useSyncExternalStore } from 'react';

/** The zone in which the page shows and reads times. */
export type Zone = 'local' | 'utc';

/** The choice is stored in this browser, like that of the colours. */
const STORED_AS = 'portal-zone';

let zone: Zone = stored() === 'utc' ? 'utc' : 'local';
const listeners = new Set<() => void>();

export function currentZone(): Zone {
  return zone;
}

export function setZone(next: Zone): void {
  zone = next;
  try {
    localStorage.setItem(STORED_AS, next);
  } catch {
    // A browser without storage keeps the choice until the page is closed.
  }
  for (const listener of listeners) listener();
}

/** The zone; the component is drawn again when it changes. */
export function useZone(): Zone {
  return useSyncExternalStore(onChange, currentZone);
}

/** The name of the reader's zone, such as `Europe/London`. */
export function localZoneName(): string {
  return Intl.DateTimeFormat().resolvedOptions().timeZone;
}

function stored(): string | null {
  try {
    return localStorage.getItem(STORED_AS);
  } catch {
    return null;
  }
}

function onChange(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
