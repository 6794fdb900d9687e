import { createHash, timingSafeEqual } from 'node:crypto';

/** An account of the bundled identity provider. */
export interface Account {
  readonly id: string;
  readonly email: string;
  readonly password: string;
  readonly name: string;
  /** Whether the e-mail address is confirmed; true when absent. */
  readonly emailVerified?: boolean;
}

/** The account with this e-mail address and password; undefined when they do not match. */
export function authenticate(
  accounts: readonly Account[],
  email: string,
  password: string,
): Account | undefined {
  const account = accounts.find((one) => one.email === normalEmail(email));
  // The password is compared even without an account, so that the response time does not reveal the address.
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
