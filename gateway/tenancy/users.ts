import { invalidField } from '../../services/platform/errors.ts';
import type { Queryable } from '../../services/platform/postgres.ts';

export interface User {
  readonly id: bigint;
  readonly email: string;
  readonly name: string | null;
}

const EMAIL = /^[^@\s\p{Cc}\p{Cs}]+@[^@\s\p{Cc}\p{Cs}]+$/u;
const MAX_EMAIL = 320;

/**
 * Converts an e-mail address to the form that is stored and compared: trimmed, Unicode NFC, lower case. Undefined when
 * the text is not an address.
 */
export function parseEmail(text: string): string | undefined {
  const email = text.trim().normalize('NFC').toLowerCase();
  return EMAIL.test(email) && [...email].length <= MAX_EMAIL ? email : undefined;
}

function normalizeEmail(text: string): string {
  const email = parseEmail(text);
  if (email === undefined) throw invalidField('email', 'must be an e-mail address');
  return email;
}

/** Returns the user with this address, or creates one. A `name` replaces the stored name. */
export async function ensureUser(tx: Queryable, email: string, name?: string): Promise<User> {
  const { rows } = await tx.query<User>(
    `insert into users (email, name) values ($1, $2)
     on conflict (email) do update set name = coalesce(excluded.name, users.name)
     returning id, email, name`,
    [normalizeEmail(email), name ?? null],
  );
  const [user] = rows;
  if (!user) throw new Error('the upsert returned no row');
  return user;
}

export async function findUser(db: Queryable, email: string): Promise<User | undefined> {
  const { rows } = await db.query<User>('select id, email, name from users where email = $1', [
    normalizeEmail(email),
  ]);
  return rows[0];
}
