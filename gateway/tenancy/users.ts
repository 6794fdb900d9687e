import type { Queryable } from '../../services/platform/postgres/postgres.ts';
import { invalidField } from '../../services/platform/values/errors.ts';
import { nameProblem } from '../../services/platform/values/text.ts';

export interface User {
  readonly id: bigint;
  readonly email: string;
  readonly name: string | null;
}

const EMAIL = /^[^@\s\p{Cc}\p{Cf}\p{Cs}]+@[^@\s\p{Cc}\p{Cf}\p{Cs}]+$/u;
const MAX_EMAIL = 320;

/**
 * Converts an e-mail address to the form that is stored and compared: trimmed, Unicode NFC, lower case. Undefined when
 * the text is not an address.
 */
export function parseEmail(text: string): string | undefined {
  const email = text.trim().normalize('NFC').toLowerCase();
  return EMAIL.test(email) && [...email].length <= MAX_EMAIL ? email : undefined;
}

/** Letters of Thai and Lao that NFKC takes apart. */
const TAKEN_APART = /[\u0E33\u0EB3]/g;

/**
 * Rejects a new address that has another compatible form, such as wide letters: it could pass for that of somebody else.
 *
 * @throws DomainError INVALID_ARGUMENT
 */
export function requireHonestEmail(email: string): void {
  const text = email.replace(TAKEN_APART, '');
  if (text.normalize('NFKC') !== text) {
    throw invalidField(
      'email',
      'must not have characters that stand for others, such as wide letters',
    );
  }
}

/** @throws DomainError INVALID_ARGUMENT for a name that could deceive those who read it. */
export function requireHonestName(name: string): void {
  const problem = nameProblem(name);
  if (problem !== undefined) throw invalidField('name', problem);
}

/** As {@link parseEmail}. @throws DomainError INVALID_ARGUMENT when the text is not an e-mail address. */
export function normalizeEmail(text: string): string {
  const email = parseEmail(text);
  if (email === undefined) throw invalidField('email', 'must be an e-mail address');
  return email;
}

/**
 * Returns the user with this address, or creates one.
 *
 * @param o.name replaces the stored name.
 * @param o.renamedBy the shop that gives the name; absent for an operator. A shop cannot rename a member of another
 *   shop, because all shops show the same name.
 * @throws DomainError INVALID_ARGUMENT when the text is not an e-mail address.
 */
export async function ensureUser(
  tx: Queryable,
  email: string,
  o: { readonly name?: string | undefined; readonly renamedBy?: bigint | undefined } = {},
): Promise<User> {
  if (o.name !== undefined) requireHonestName(o.name);
  if (!(await findUser(tx, email))) requireHonestEmail(normalizeEmail(email));
  const { rows } = await tx.query<User>(
    `insert into users (email, name) values ($1, $2)
     on conflict (email) do update set name =
       case when excluded.name is null
              or exists (select from memberships m where m.user_id = users.id and m.shop_id <> $3::bigint)
            then users.name else excluded.name end
     returning id, email, name`,
    [normalizeEmail(email), o.name ?? null, o.renamedBy ?? null],
  );
  const [user] = rows;
  if (!user) throw new Error('the upsert returned no row');
  return user;
}

/** @throws DomainError INVALID_ARGUMENT when the text is not an e-mail address. */
export async function findUser(db: Queryable, email: string): Promise<User | undefined> {
  const { rows } = await db.query<User>('select id, email, name from users where email = $1', [
    normalizeEmail(email),
  ]);
  return rows[0];
}
