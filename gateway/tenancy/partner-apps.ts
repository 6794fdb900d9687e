import { createHash, randomBytes } from 'node:crypto';
import { Code } from '@connectrpc/connect';
import type pg from 'pg';
import { ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import { PARTNER_SCOPES } from '../../services/contract/operations.ts';
import type { Scope } from '../../services/contract/scopes.ts';
import { inTransaction, type Queryable } from '../../services/platform/postgres/postgres.ts';
import { DomainError, invalidField } from '../../services/platform/values/errors.ts';
import { blank, cleanText, fits } from '../../services/platform/values/text.ts';
import { type Author, recordAudits } from './audit.ts';
import { isPartnerScope } from './partner-scopes.ts';
import { requireHonestName } from './users.ts';

/** A partner's app that the operator registered. */
export interface PartnerApp {
  readonly clientId: string;
  readonly name: string;
  /** Exact: a sign-in must send one of them, character by character. */
  readonly redirectUris: readonly string[];
  /** The scopes that the app may ask for. */
  readonly scopes: readonly Scope[];
  readonly website: string | null;
  /** Address of a picture. */
  readonly logo: string | null;
  /** Whether the app has no secret, such as a page in a browser. It gets no refresh tokens. */
  readonly isPublic: boolean;
  readonly createdAt: Date;
}

export interface NewPartnerApp {
  readonly name: string;
  readonly redirectUris: readonly string[];
  readonly scopes: readonly string[];
  readonly website?: string | undefined;
  readonly logo?: string | undefined;
  readonly isPublic?: boolean | undefined;
  /** For stacks that must know them again after a restart; new ones when absent. */
  readonly fixed?: { readonly clientId: string; readonly secret?: string } | undefined;
}

const MAX_NAME = 100;
const MAX_REDIRECT_URIS = 20;
/** Maximum length of an address. Characters. */
const MAX_ADDRESS = 500;
/** How long a replaced secret works by default. Hours. */
export const DEFAULT_OVERLAP_HOURS = 24;
const MAX_LISTED = 1_000;
/** Installations that one transaction removes. */
const REMOVE_BATCH = 500;

const COLUMNS = `a.client_id as "clientId", a.name, a.redirect_uris as "redirectUris", a.scopes, a.website, a.logo,
  a.is_public as "isPublic", a.created_at as "createdAt"`;

/**
 * Registers an app. With a fixed id it may be repeated, with another name, other redirect URIs and scopes.
 *
 * @returns the client id and the secret, which is not stored: only now it can be shown. A public app has none.
 * @throws DomainError INVALID_ARGUMENT for a name, an address or a scope that is not allowed.
 */
export function createPartnerApp(
  pool: pg.Pool,
  app: NewPartnerApp,
): Promise<{ readonly clientId: string; readonly secret: string | undefined }> {
  const values = checked(app);
  const clientId = app.fixed?.clientId ?? `app-${randomBytes(9).toString('hex')}`;
  const secret = app.isPublic ? undefined : (app.fixed?.secret ?? newSecret());
  return inTransaction(pool, async (tx) => {
    await tx.query(
      `insert into partner_apps (client_id, name, redirect_uris, scopes, website, logo, is_public)
       values ($1, $2, $3, $4, $5, $6, $7)
       on conflict (client_id) do update
         set name = excluded.name, redirect_uris = excluded.redirect_uris, scopes = excluded.scopes`,
      [clientId, ...values],
    );
    if (secret !== undefined) {
      await tx.query(
        `insert into partner_app_secrets (client_id, secret_hash) values ($1, $2) on conflict do nothing`,
        [clientId, hashOf(secret)],
      );
    }
    return { clientId, secret };
  });
}

/** @throws DomainError INVALID_ARGUMENT */
function checked(app: NewPartnerApp) {
  const name = app.name.trim();
  if (blank(name) || !fits(name, MAX_NAME) || !cleanText(name) || /\p{Cc}/u.test(name)) {
    throw invalidField('name', `must have 1 to ${MAX_NAME} characters`);
  }
  requireHonestName(name);
  const uris = [...new Set(app.redirectUris)];
  if (uris.length < 1 || uris.length > MAX_REDIRECT_URIS) {
    throw invalidField('redirect_uris', `must have 1 to ${MAX_REDIRECT_URIS} addresses`);
  }
  for (const uri of uris) requireRedirectUri(uri);
  const scopes = [...new Set(app.scopes)];
  if (scopes.length === 0 || !scopes.every(isPartnerScope)) {
    throw invalidField('scopes', `must be of ${PARTNER_SCOPES.join(', ')}`);
  }
  const website = pageAddress('website', app.website);
  const logo = pageAddress('logo', app.logo);
  return [name, uris, scopes, website, logo, app.isPublic ?? false];
}

/**
 * Allows https, and http on the developer's own machine (RFC 8252, 7.3). A fragment would hide the code (RFC 6749,
 * 3.1.2).
 */
function requireRedirectUri(uri: string): void {
  const url = URL.parse(uri);
  const isLoopback =
    url?.protocol === 'http:' && ['127.0.0.1', '[::1]', 'localhost'].includes(url.hostname);
  const isAllowed =
    url !== null && (url.protocol === 'https:' || isLoopback) && url.username === '' && !url.hash;
  if (isAllowed && uri.length <= MAX_ADDRESS && !/[\s\\#]/.test(uri)) return;
  throw invalidField(
    'redirect_uris',
    'must be https addresses, or http ones of 127.0.0.1, [::1] or localhost, without a fragment',
  );
}

function pageAddress(field: string, text: string | undefined): string | null {
  if (text === undefined) return null;
  const url = URL.parse(text);
  if (url?.protocol === 'https:' && url.username === '' && text.length <= MAX_ADDRESS) {
    return url.href;
  }
  throw invalidField(field, `must be an https address of at most ${MAX_ADDRESS} characters`);
}

/** Registered apps, oldest first, with the number of shops that installed them. At most {@link MAX_LISTED}. */
export async function listPartnerApps(
  db: Queryable,
): Promise<(PartnerApp & { readonly removedAt: Date | null; readonly shops: number })[]> {
  const { rows } = await db.query(
    `select ${COLUMNS}, a.removed_at as "removedAt",
            (select count(*)::int from installations i where i.client_id = a.client_id) as shops
       from partner_apps a order by a.created_at, a.client_id limit $1`,
    [MAX_LISTED],
  );
  return rows;
}

/** The app with this client id; undefined when there is none, or when it was removed. */
export async function findPartnerApp(
  db: Queryable,
  clientId: string,
): Promise<PartnerApp | undefined> {
  const { rows } = await db.query<PartnerApp>(
    `select ${COLUMNS} from partner_apps a where a.client_id = $1 and a.removed_at is null`,
    [clientId],
  );
  return rows[0];
}

/** Whether this is a secret of the app that works. */
export async function isPartnerSecret(
  db: Queryable,
  clientId: string,
  secret: string,
): Promise<boolean> {
  const { rowCount } = await db.query(
    `select 1 from partner_app_secrets
      where client_id = $1 and secret_hash = $2 and (expires_at is null or expires_at > now())`,
    [clientId, hashOf(secret)],
  );
  return rowCount === 1;
}

/**
 * Gives an app a new secret. The former one works for some more hours.
 *
 * @param o.overlapHours 0 ends the former secrets at once.
 * @returns the new secret, which is not stored.
 * @throws DomainError NOT_FOUND when there is no such app; INVALID_ARGUMENT for a public app.
 */
export function rotatePartnerSecret(
  pool: pg.Pool,
  { clientId, overlapHours }: { readonly clientId: string; readonly overlapHours: number },
): Promise<string> {
  return inTransaction(pool, async (tx) => {
    const { isPublic, isRemoved } = await lockApp(tx, clientId);
    if (isRemoved) throw noSuchApp(clientId);
    if (isPublic) throw invalidField('client_id', 'is a public app, which has no secret');
    await tx.query(`delete from partner_app_secrets where client_id = $1 and expires_at <= now()`, [
      clientId,
    ]);
    await tx.query(
      `update partner_app_secrets
          set expires_at = least(expires_at, now() + $2 * interval '1 hour') where client_id = $1`,
      [clientId, overlapHours],
    );
    const secret = newSecret();
    await tx.query('insert into partner_app_secrets (client_id, secret_hash) values ($1, $2)', [
      clientId,
      hashOf(secret),
    ]);
    return secret;
  });
}

/**
 * Removes an app: within 5 seconds every replica rejects its tokens and its sign-ins, and the app is removed from every
 * shop. May be repeated; a repeat completes an interrupted removal.
 *
 * @param o.issuer of the app's tokens.
 * @returns the number of shops that had installed it.
 * @throws DomainError NOT_FOUND when there is no such app.
 */
export async function removePartnerApp(
  pool: pg.Pool,
  o: { readonly clientId: string; readonly issuer: string; readonly by: Author },
): Promise<number> {
  await inTransaction(pool, async (tx) => {
    await lockApp(tx, o.clientId);
    await tx.query(
      `update partner_apps set removed_at = coalesce(removed_at, now()) where client_id = $1`,
      [o.clientId],
    );
  });
  let shops = 0;
  for (let isLast = false; !isLast; ) {
    const removed = await removeInstallations(pool, o);
    shops += removed;
    isLast = removed < REMOVE_BATCH;
  }
  return shops;
}

function removeInstallations(
  pool: pg.Pool,
  { clientId, issuer, by }: { clientId: string; issuer: string; by: Author },
): Promise<number> {
  return inTransaction(pool, async (tx) => {
    const { rows } = await tx.query<{ shopId: bigint }>(
      `delete from installations where (shop_id, issuer, client_id) in (
         select shop_id, issuer, client_id from installations where issuer = $1 and client_id = $2
          order by shop_id limit $3)
       returning shop_id as "shopId"`,
      [issuer, clientId, REMOVE_BATCH],
    );
    const entries = rows.map(({ shopId }) => ({
      shopId,
      by,
      action: 'app.removed',
      subject: clientId,
      detail: { issuer },
    }));
    if (entries.length > 0) await recordAudits(tx, entries);
    return rows.length;
  });
}

async function lockApp(
  tx: Queryable,
  clientId: string,
): Promise<{ readonly isPublic: boolean; readonly isRemoved: boolean }> {
  const { rows } = await tx.query<{ isPublic: boolean; isRemoved: boolean }>(
    `select is_public as "isPublic", removed_at is not null as "isRemoved"
       from partner_apps where client_id = $1 for no key update`,
    [clientId],
  );
  const [app] = rows;
  if (app) return app;
  throw noSuchApp(clientId);
}

function noSuchApp(clientId: string): DomainError {
  return new DomainError(
    Code.NotFound,
    ErrorReason.UNSPECIFIED,
    `there is no app ${clientId}; \`partner-app list\` shows those that exist`,
  );
}

/** Secret scanners recognize the prefix. */
function newSecret(): string {
  return `rms_app_${randomBytes(32).toString('base64url')}`;
}

/** The secret has 256 random bits, so a slow hash is not needed. */
function hashOf(secret: string): Buffer {
  return createHash('sha256').update(secret).digest();
}
