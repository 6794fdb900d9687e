import type { Queryable } from '../postgres/postgres.ts';
import { raw, type Sql, sql, unnamed } from '../postgres/sql.ts';
import type { Keyring } from '../security/keyring.ts';
import { newSecret } from './signature.ts';

/** A signing secret that is still valid. */
export interface Secret {
  readonly id: bigint;
  readonly value: string;
  readonly createdAt: Date;
  /** When the secret stops to sign; null for the newest one. */
  readonly expiresAt: Date | null;
}

/** Maximum number of valid secrets. Each of them signs every request, and receivers limit the length of headers. */
const MAX_SECRETS = 10;

/** A table of encrypted secrets with the columns id, key_id, sealed, created_at and expires_at. */
export interface SecretTable<Owner> {
  readonly table: string;
  /** The columns with the owner, of type bigint. Each comes with a function that returns its value for an owner. */
  readonly owner: Readonly<Record<string, (owner: Owner) => bigint>>;
}

/** The signing secrets of owners. An owner is, for example, a webhook subscription. */
export interface SecretStore<Owner> {
  /** Creates and stores a new secret. */
  add(tx: Queryable, owner: Owner, keyring: Keyring): Promise<Secret>;
  /**
   * Creates a new secret. Earlier secrets continue to sign until the overlap ends, or until they expire. After many
   * rotations within the overlap, only the last ten secrets sign.
   */
  rotate(
    tx: Queryable,
    owner: Owner,
    o: { readonly keyring: Keyring; readonly overlapHours: number },
  ): Promise<Secret>;
  /** Ends earlier secrets: from now on only the newest signs. Returns the number of secrets that signed until now. */
  endFormer(tx: Queryable, owner: Owner): Promise<number>;
  /** Returns the valid secrets, newest first. */
  list(db: Queryable, owner: Owner, keyring: Keyring): Promise<Secret[]>;
  /**
   * Returns the secret that an earlier call with the same idempotency key created. This is the secret with this id, or
   * without an id the first secret of the owner. When it is no longer valid, returns the newest secret.
   */
  earlier(
    db: Queryable,
    owner: Owner,
    o: { readonly keyring: Keyring; readonly id?: bigint },
  ): Promise<Secret>;
  /**
   * The context of the encryption. It binds a secret to its owner: a copy in the row of another owner cannot be
   * decrypted.
   */
  contextOf(owner: Owner): string;
}

/** Creates the store of a table. The texts of its statements are the same for all owners. */
export function createSecretStore<Owner>(t: SecretTable<Owner>): SecretStore<Owner> {
  const table = raw(t.table);
  const columns = Object.keys(t.owner);
  const values = (owner: Owner) => Object.values(t.owner).map((of) => of(owner));
  const contextOf = (owner: Owner) => values(owner).join(':');
  const isOwn = (owner: Owner): Sql =>
    Object.entries(t.owner).reduce(
      (condition, [column, of]) => sql`${condition} and ${raw(column)} = ${of(owner)}`,
      sql`true`,
    );

  const add = async (tx: Queryable, owner: Owner, keyring: Keyring): Promise<Secret> => {
    const value = newSecret();
    const { keyId, encrypted } = keyring.encrypt(value, contextOf(owner));
    const own = values(owner).reduce((list, one) => sql`${list}${one}, `, raw(''));
    const { rows } = await tx.query<{ id: bigint; createdAt: Date }>(
      unnamed(sql`
insert into ${table} (${raw(columns.join(', '))}, key_id, sealed) values (${own}${keyId}, ${encrypted})
returning id, created_at as "createdAt"`),
    );
    const [row] = rows;
    if (!row) throw new Error('a secret was not stored');
    return { ...row, value, expiresAt: null };
  };

  const list = async (db: Queryable, owner: Owner, keyring: Keyring): Promise<Secret[]> => {
    const { rows } = await db.query<Omit<Secret, 'value'> & { keyId: string; sealed: Uint8Array }>(
      unnamed(sql`
select id, key_id as "keyId", sealed, created_at as "createdAt", expires_at as "expiresAt"
  from ${table} where ${isOwn(owner)} and (expires_at is null or expires_at > now())
 order by id desc`),
    );
    return rows.map(({ keyId, sealed, ...row }) => ({
      ...row,
      value: keyring.decrypt(keyId, sealed, contextOf(owner)),
    }));
  };

  return {
    add,
    list,
    contextOf,
    async rotate(tx, owner, { keyring, overlapHours }) {
      await tx.query(
        unnamed(sql`
update ${table} set expires_at = least(expires_at, now() + ${overlapHours} * interval '1 hour')
 where ${isOwn(owner)}`),
      );
      await tx.query(
        unnamed(sql`
delete from ${table}
 where ${isOwn(owner)} and (expires_at <= now() or id not in (
   select id from ${table} where ${isOwn(owner)} order by id desc limit ${MAX_SECRETS - 1}))`),
      );
      return add(tx, owner, keyring);
    },
    // Changes nothing when there is only the newest secret, which has no `expires_at`.
    async endFormer(tx, owner) {
      const { rows } = await tx.query<{ signed: boolean }>(
        unnamed(sql`
delete from ${table} where ${isOwn(owner)} and expires_at is not null returning expires_at > now() as signed`),
      );
      return rows.filter(({ signed }) => signed).length;
    },
    async earlier(db, owner, o) {
      const valid = await list(db, owner, o.keyring);
      const found = o.id === undefined ? valid.at(-1) : valid.find(({ id }) => id === o.id);
      const secret = found ?? valid[0];
      if (!secret) throw new Error('the owner has no secret');
      return secret;
    },
  };
}
