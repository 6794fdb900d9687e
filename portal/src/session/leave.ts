/** The address of the page after the sign-out. It reads no session. */
export const SIGNED_OUT = '/portal/signed-out';

let left = false;

/** Leaves the page after the session has ended. Calls that fail from now on start no new sign-in. */
export function leave(): void {
  left = true;
  window.location.assign(SIGNED_OUT);
}

/** Whether the user has signed out on this page. */
export function hasLeft(): boolean {
  return left;
}
