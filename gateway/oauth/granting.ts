import { AsyncLocalStorage } from 'node:async_hooks';

/** What is known of a sign-in while its grant is made, beside what oidc-provider hands to its store. */
export interface Granting {
  /** The address that the person's browser came from. */
  readonly source?: string;
  /** Of the HTTP request that it is made with. */
  readonly requestId?: string;
  /** The host that the code goes to, or the scheme of an app. */
  readonly app?: string;
  /** Whether the person was asked for this grant, and agreed. */
  readonly isConsented?: boolean;
}

const storage = new AsyncLocalStorage<Granting>();

/** Does some work of which more is known now. */
export function grantingWith<T>(known: Granting, work: () => T): T {
  return storage.run({ ...storage.getStore(), ...known }, work);
}

export function granting(): Granting {
  return storage.getStore() ?? {};
}
