import { SIGNED_OUT } from './signed-out.tsx';

/** Leaves the page after the session has ended. */
export function leave(): void {
  window.location.assign(SIGNED_OUT);
}
