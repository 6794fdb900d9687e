import { AsyncLocalStorage } from 'node:async_hooks';

/** Values of a sign-in that the grant adapter needs, and that oidc-provider does not pass to it. */
export interface GrantContext {
  /** The IP address of the user's browser. */
  readonly source?: string;
  /** The id of the HTTP request that creates the grant. */
  readonly requestId?: string;
  /** Where the code goes: a host, or the scheme of the app. */
  readonly app?: string;
  /** The name that the app gives itself. */
  readonly selfName?: string | undefined;
  /** Whether the user saw the consent page for this grant, and agreed. */
  readonly isConsented?: boolean;
  /** Whether the user allowed the app only to read. */
  readonly isReadOnly?: boolean;
}

const storage = new AsyncLocalStorage<GrantContext>();

/** Runs `work`. During it, {@link grantContext} returns these values, too. */
export function withGrantContext<T>(values: GrantContext, work: () => T): T {
  return storage.run({ ...storage.getStore(), ...values }, work);
}

export function grantContext(): GrantContext {
  return storage.getStore() ?? {};
}

/** Who asks, for the log: every line about a sign-in names the address and the request. */
export function signInFields(): Pick<GrantContext, 'source' | 'requestId'> {
  const { source, requestId } = grantContext();
  return { ...(source !== undefined && { source }), ...(requestId !== undefined && { requestId }) };
}
