import { AsyncLocalStorage } from 'node:async_hooks';

/** Facts about a sign-in that the grant adapter needs. oidc-provider does not pass them to the adapter. */
export interface GrantContext {
  /** The IP address of the user's browser. */
  readonly source?: string;
  /** The id of the HTTP request that creates the grant. */
  readonly requestId?: string;
  /** The host that the code goes to, or the scheme of the app. */
  readonly app?: string;
  /** Whether the user saw the consent page for this grant, and agreed. */
  readonly isConsented?: boolean;
  /** Whether the user allowed the app only to read. */
  readonly isReadOnly?: boolean;
}

const storage = new AsyncLocalStorage<GrantContext>();

/** Runs `work`. Inside it, {@link grantContext} also returns these facts. */
export function withGrantContext<T>(facts: GrantContext, work: () => T): T {
  return storage.run({ ...storage.getStore(), ...facts }, work);
}

export function grantContext(): GrantContext {
  return storage.getStore() ?? {};
}
