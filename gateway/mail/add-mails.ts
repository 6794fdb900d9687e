import { afterCommit, type Queryable } from '../../services/platform/postgres/postgres.ts';
import { named, sql } from '../../services/platform/postgres/sql.ts';
import { type Permission, permits, ROLES, type Role } from '../tenancy/permissions.ts';
import type { FactKind, ShopFact } from './facts.ts';
import type { MailMetrics } from './metrics.ts';

interface Rule {
  /** The roles whose members get the mail, or the person whom the fact is about. */
  readonly roles: readonly Role[] | 'person';
  /** Whether its subject has at most one mail a day. A mail without this limit still counts as the one of the day. */
  readonly isDaily: boolean;
}

const DEVELOPERS = rolesWith(['developer.view', 'developer.manage']);
const OWNERS: readonly Role[] = ['owner'];

/** Who gets a mail about a fact, and how often. */
const RULES: Readonly<Record<FactKind, Rule>> = {
  endpoint_failing: { roles: DEVELOPERS, isDaily: true },
  endpoint_disabled: { roles: DEVELOPERS, isDaily: false },
  endpoint_exhausted: { roles: DEVELOPERS, isDaily: true },
  secret_revealed: { roles: OWNERS, isDaily: true },
  assistant_connected: { roles: OWNERS, isDaily: true },
  owner_added: { roles: OWNERS, isDaily: false },
  api_key_made: { roles: OWNERS, isDaily: false },
  new_device: { roles: 'person', isDaily: false },
  app_installed: { roles: OWNERS, isDaily: false },
};

/** Maximum number of facts in one mail: as many as a shop has subscriptions. Further facts are left out. */
const MAX_FACTS = 100;

function rolesWith(anyOf: readonly Permission[]): Role[] {
  return ROLES.filter((role) => permits(role, anyOf));
}

/** Stores mails. */
export interface MailAdder {
  /** Stores mails about facts in the transaction that makes or consumes them. They are sent after the commit. */
  add(tx: Queryable, facts: readonly ShopFact[]): Promise<void>;
}

/** Creates the `add` of a {@link MailAdder}. */
export function mailAdder(o: {
  readonly gatherMs: number;
  readonly metrics: Pick<MailMetrics, 'suppressed'>;
  /** Called after the commit: a mail is due within this time. Milliseconds. */
  readonly wake: (withinMs: number) => void;
}): MailAdder['add'] {
  return async (tx, facts) => {
    if (facts.length === 0) return;
    const suppressed = await addMails(tx, facts, o);
    afterCommit(tx, () => {
      for (const kind of suppressed) o.metrics.suppressed(kind);
      o.wake(o.gatherMs);
    });
  };
}

/**
 * Stores the mails about facts, in the transaction that makes or consumes them. A fact joins a mail about its subject
 * that no process has taken yet. Without such a mail, the fact gets a mail of its own. For most kinds, a subject gets
 * at most one mail a day. Returns the kinds of the facts that are in no mail.
 *
 * @param o.gatherMs how long a new mail waits for further facts.
 */
async function addMails(
  tx: Queryable,
  facts: readonly ShopFact[],
  o: { readonly gatherMs: number },
): Promise<FactKind[]> {
  const suppressed: FactKind[] = [];
  await lockShops(tx, facts);
  for (const fact of facts) {
    if (!(await addMail(tx, fact, o.gatherMs))) suppressed.push(fact.fact.kind);
  }
  return suppressed;
}

/** Replicas store the facts of a shop one after the other. The order prevents deadlocks. */
async function lockShops(tx: Queryable, facts: readonly ShopFact[]): Promise<void> {
  const ids = [...new Set(facts.map(({ shopId }) => shopId))];
  if (ids.length === 0) return;
  await tx.query({
    name: 'mails-lock-shops',
    text: `select pg_advisory_xact_lock(hashtextextended('mails:' || id, 0))
             from (select id from unnest($1::bigint[]) as u (id) order by id) sorted`,
    values: [ids],
  });
}

/** Returns whether the fact is in a mail. */
async function addMail(tx: Queryable, { shopId, subject, fact }: ShopFact, gatherMs: number) {
  const { kind } = fact;
  const { roles, isDaily } = RULES[kind];
  const joined = await tx.query(
    named(
      'mails-join',
      sql`update mails
             set facts = case when jsonb_array_length(facts) < ${MAX_FACTS} then facts || ${JSON.stringify([fact])}::jsonb
                              else facts end
           where shop_id = ${shopId} and kind = ${kind} and subject = ${subject} and is_gathering`,
    ),
  );
  if ((joined.rowCount ?? 0) > 0) return true;
  const { rowCount: isFirstToday } = await tx.query(
    named(
      'mails-day',
      sql`insert into mail_days (shop_id, subject, day)
          select id, ${subject}, (now() at time zone 'utc')::date from shops where id = ${shopId}
          on conflict do nothing`,
    ),
  );
  if (isDaily && isFirstToday !== 1) return false;
  const person = roles === 'person' && 'user_id' in fact ? fact.user_id : null;
  const added = await tx.query(
    named(
      'mails-add',
      sql`insert into mails (shop_id, user_id, kind, subject, facts, due_at)
          select shop_id, user_id, ${kind}, ${subject}, ${JSON.stringify([fact])}::jsonb,
                 now() + ${gatherMs} * interval '1 ms'
            from memberships
           where shop_id = ${shopId}
             and (user_id = ${person}::bigint or role = any(${person === null ? roles : []}::text[]))`,
    ),
  );
  return (added.rowCount ?? 0) > 0;
}
