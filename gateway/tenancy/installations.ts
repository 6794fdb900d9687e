import { Code } from '@connectrpc/connect';
import type pg from 'pg';
import { ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import { DomainError, invalidField } from '../../services/platform/errors.ts';
import { inTransaction, type Queryable } from '../../services/platform/postgres.ts';
import { type Author, recordAudit } from './audit.ts';
import { requireShop } from './shops.ts';

/** Characters; the constraint `installations_client_id_length` has the same limit. */
export const CLIENT_ID_MAX = 200;

/** A partner's app that a shop has installed. The scopes of the app's tokens limit what it may do in the shop. */
export interface Installation {
  readonly shopId: bigint;
  /** `iss` of the app's tokens. */
  readonly issuer: string;
  readonly clientId: string;
}

/**
 * Installs a partner's app: the gateway accepts its tokens for the shop. Idempotent.
 *
 * @throws DomainError for an unknown shop, an invalid issuer or a client id of invalid length.
 */
export async function installApp(pool: pg.Pool, app: Installation & { by: Author }): Promise<void> {
  const length = [...app.clientId].length;
  if (length < 1 || length > CLIENT_ID_MAX) {
    throw invalidField('client_id', `must have 1 to ${CLIENT_ID_MAX} characters`);
  }
  if (!URL.canParse(app.issuer)) throw invalidField('issuer', 'must be an absolute address');
  await inTransaction(pool, async (tx) => {
    await requireShop(tx, app.shopId);
    const { rowCount } = await tx.query(
      `insert into installations (shop_id, issuer, client_id) values ($1, $2, $3)
       on conflict do nothing`,
      [app.shopId, app.issuer, app.clientId],
    );
    if (rowCount) await audit(tx, app, 'app.installed');
  });
}

/**
 * Ends an installation. Within 5 seconds, every replica rejects the app's tokens.
 *
 * @throws DomainError NOT_FOUND when the shop has no such installation.
 */
export function removeApp(pool: pg.Pool, app: Installation & { by: Author }): Promise<void> {
  return inTransaction(pool, async (tx) => {
    const { rowCount } = await tx.query(
      'delete from installations where shop_id = $1 and issuer = $2 and client_id = $3',
      [app.shopId, app.issuer, app.clientId],
    );
    if (!rowCount) {
      const text = 'the shop has no installation of that app';
      throw new DomainError(Code.NotFound, ErrorReason.UNSPECIFIED, text);
    }
    await audit(tx, app, 'app.removed');
  });
}

/** Whether the shop of an installation is a sandbox; undefined when the shop has not installed the app. */
export async function findInstallation(
  db: Queryable,
  app: Installation,
): Promise<{ readonly sandbox: boolean } | undefined> {
  const { rows } = await db.query<{ sandbox: boolean }>(
    `select s.sandbox from installations i join shops s on s.id = i.shop_id
      where i.shop_id = $1 and i.issuer = $2 and i.client_id = $3`,
    [app.shopId, app.issuer, app.clientId],
  );
  return rows[0];
}

/** The shop's installed apps, oldest first. */
export async function listApps(
  db: Queryable,
  shopId: bigint,
): Promise<(Installation & { readonly createdAt: Date })[]> {
  const { rows } = await db.query<Installation & { readonly createdAt: Date }>(
    `select shop_id as "shopId", issuer, client_id as "clientId", created_at as "createdAt"
       from installations where shop_id = $1 order by created_at, issuer, client_id`,
    [shopId],
  );
  return rows;
}

async function audit(tx: Queryable, app: Installation & { by: Author }, action: string) {
  await recordAudit(tx, {
    shopId: app.shopId,
    by: app.by,
    action,
    subject: app.clientId,
    detail: { issuer: app.issuer },
  });
}
