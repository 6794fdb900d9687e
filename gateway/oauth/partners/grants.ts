import type pg from 'pg';
import { Actor_Kind } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import { onlyRow } from '../../../services/platform/postgres/only-row.ts';
import { inTransaction, type Queryable } from '../../../services/platform/postgres/postgres.ts';
import type { Logger } from '../../../services/platform/telemetry/log.ts';
import type { MailAdder } from '../../mail/add-mails.ts';
import type { ShopFact } from '../../mail/facts.ts';
import type { Author } from '../../tenancy/audit.ts';
import {
  type AddedGrant,
  addPartnerGrant,
  endPartnerGrants,
  findPartnerGrant,
  type PartnerGrantFor,
} from '../../tenancy/partner-grants.ts';
import type { GrantStore } from '../adapter.ts';
import { signInFields } from '../tokens/grant-context.ts';
import { GATEWAY, grantPayload } from '../tokens/grants.ts';

/** Creates the store of the grants of partners' apps. The first grant in a shop installs the app. */
export function createPartnerGrants(o: {
  readonly pool: pg.Pool;
  readonly issuer: string;
  readonly resource: string;
  readonly logger: Logger;
  /** Mails to the owners; undefined when mails are off. */
  readonly mails: MailAdder | undefined;
}): GrantStore {
  const { pool, issuer, resource, logger, mails } = o;
  return {
    async put(id, { scopes: requested, ...grant }) {
      await inTransaction(pool, async (tx) => {
        const by = await authorOf(tx, grant.userId);
        const added = await addPartnerGrant(tx, id, { ...grant, issuer, requested, by });
        const isNews = added.isInstalled || added.waitingScopes.length > 0;
        if (added.isNew && isNews) await mails?.add(tx, [installedFact(grant, added)]);
      });
    },
    async find(id) {
      const grant = await findPartnerGrant(pool, id);
      // With the scopes that wait, so that the app gets them with a refresh when an owner has allowed them.
      const scopes = grant ? [...grant.scopes, ...grant.waitingScopes] : [];
      return grant && grantPayload(id, { ...grant, resource, scopes });
    },
    async revoke(id) {
      const why = 'token_reused';
      const by = GATEWAY;
      const count = await inTransaction(pool, (tx) => endPartnerGrants(tx, { id }, { by, why }));
      if (count > 0) logger.warn({ grantId: id, why }, 'grant ended: a code or token was reused');
    },
  };
}

/** The user who consented, and the browser's address. */
async function authorOf(tx: Queryable, userId: bigint): Promise<Author> {
  const found = await tx.query<{ name: string | null }>('select name from users where id = $1', [
    userId,
  ]);
  return {
    actor: { kind: Actor_Kind.USER, id: String(userId), name: onlyRow(found).name ?? '' },
    ...signInFields(),
  };
}

/** The fact for a mail to the owners. */
function installedFact(
  { shopId, userId, clientId }: Omit<PartnerGrantFor, 'issuer'>,
  { appName, scopes, waitingScopes }: AddedGrant,
): ShopFact {
  return {
    shopId,
    subject: `app:${clientId}:${userId}`,
    fact: {
      kind: 'app_installed',
      at: new Date().toISOString(),
      user_id: String(userId),
      client_id: clientId,
      name: appName,
      scopes: [...scopes],
      waiting_scopes: [...waitingScopes],
    },
  };
}
