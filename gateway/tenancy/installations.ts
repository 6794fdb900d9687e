import { Code } from '@connectrpc/connect';
import type pg from 'pg';
import { ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import { inTransaction, type Queryable } from '../../services/platform/postgres/postgres.ts';
import { DomainError, invalidField } from '../../services/platform/values/errors.ts';
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
 * Ends an installation. Within 5 seconds, every replica rejects the app's tokens. What members let the app do at our own
 * authorization server ends with it, so the app must ask again.
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

/** An installed app, with what is known of it. */
export interface ListedApp extends Installation {
  readonly createdAt: Date;
  /** Null for an app that is not registered here. */
  readonly name: string | null;
  readonly website: string | null;
  readonly logo: string | null;
  /** What members let it do; empty for an app of another authorization server. */
  readonly scopes: readonly string[];
  /** What it asked for, and an owner has to allow. */
  readonly waitingScopes: readonly string[];
  /** Its last call within 90 days, written once a minute. */
  readonly lastUsedAt: Date | null;
}

/** Maximum number of apps in a list. */
const MAX_LISTED = 1_000;

/**
 * The shop's installed apps, oldest first.
 *
 * @param o.ownIssuer the issuer whose apps are registered here; without it the apps have no names.
 */
export async function listApps(
  db: Queryable,
  { shopId, ownIssuer }: { readonly shopId: bigint; readonly ownIssuer?: string },
): Promise<ListedApp[]> {
  const { rows } = await db.query<ListedApp>(
    `select i.shop_id as "shopId", i.issuer, i.client_id as "clientId", i.created_at as "createdAt",
            a.name, a.website, a.logo, coalesce(g.scopes, '{}') as scopes,
            coalesce(g.waiting, '{}') as "waitingScopes", u.last_at as "lastUsedAt"
       from installations i
       left join lateral (
         select array_agg(distinct one) filter (where one is not null) as scopes,
                array_agg(distinct other) filter (where other is not null) as waiting
           from partner_grants p
           left join lateral unnest(p.scopes) one on true
           left join lateral unnest(p.waiting_scopes) other on true
          where p.shop_id = i.shop_id and p.issuer = i.issuer and p.client_id = i.client_id
            and p.revoked_at is null and p.expires_at > now()) g on true
       left join partner_apps a on i.issuer = $3 and a.client_id = i.client_id
       left join lateral (
         select max(v.last_at) as last_at from version_usage v
          where v.shop_id = i.shop_id and v.credential_kind = 'partner_app' and v.credential_id = i.client_id) u on true
      where i.shop_id = $1 order by i.created_at, i.issuer, i.client_id limit $2`,
    [shopId, MAX_LISTED, ownIssuer ?? null],
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
