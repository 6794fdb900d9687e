import { AsyncLocalStorage } from 'node:async_hooks';

/** Facts about a sign-in that the grant adapter needs, and that oidc-provider does not pass to it. */
export interface GrantContext {
  /** The IP address of the person's browser. */
  readonly source?: string;
  /** The id of the HTTP request that creates the grant. */
  readonly requestId?: string;
  /** The host that the code goes to, or the scheme of the app. */
  readonly app?: string;
  /** Whether the person was asked for this grant, and agreed. */
  readonly isConsented?: boolean;
}

const storage = new AsyncLocalStorage<GrantContext>();

/** Runs `work` with additional facts; {@link grantContext} returns them inside it. */
export function withGrantContext<T>(known: GrantContext, work: () => T): T {
  return storage.run({ ...storage.getStore(), ...known }, work);
}

export function grantContext(): GrantContext {
  return storage.getStore() ?? {};
}
