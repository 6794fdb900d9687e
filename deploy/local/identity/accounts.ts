import { createHash, timingSafeEqual } from 'node:crypto';

/** Somebody who can sign in at the bundled identity provider. */
export interface Account {
  readonly id: string;
  readonly email: string;
  readonly password: string;
  readonly name: string;
  /** Whether the address was proved to be this person's; it was when absent. */
  readonly emailVerified?: boolean;
  /** The shops this person may install an app for. */
  readonly shopIds: readonly number[];
}

/** Finds the account of an e-mail address and password; undefined when they do not belong together. */
export function authenticate(
  accounts: readonly Account[],
  email: string,
  password: string,
): Account | undefined {
  const account = accounts.find((one) => one.email === normalEmail(email));
  // Compared even without an account, so that the time tells nothing about the address.
  const equal = sameText(account?.password ?? '', password);
  return account && equal ? account : undefined;
}

export function normalEmail(text: string): string {
  return text.trim().toLowerCase();
}

function sameText(one: string, other: string): boolean {
  const digest = (text: string) => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(one), digest(other));
}
