import { timestampDate, timestampFromDate } from '@bufbuild/protobuf/wkt';
import type pg from 'pg';
import { z } from 'zod';
import { onlyRow } from '../../services/platform/postgres/only-row.ts';
import { inTransaction, type Queryable } from '../../services/platform/postgres/postgres.ts';
import type { Services } from '../services.ts';
import { SHOPPER } from '../shopper/shopper-actor.ts';
import { LANGUAGES, wordsIn } from '../shopper/words.ts';
import type { Message } from './smtp.ts';

/** The kind of these mails in the table and in metrics. */
export const WITHDRAWAL_KIND = 'withdrawal_received';

/** What a shopper declared, as it is stored with the mail about it. */
export const declarationShape = z.object({
  key: z.string(),
  order_name: z.string(),
  name: z.string(),
  email: z.string(),
  language: z.enum(LANGUAGES),
  declared_at: z.iso.datetime(),
});
export type StoredDeclaration = z.output<typeof declarationShape>;

interface NewWithdrawal {
  readonly shopId: bigint;
  readonly idempotencyKey: string;
  readonly orderName: string;
  readonly name: string;
  readonly email: string;
  readonly language: StoredDeclaration['language'];
}

/** The mails to shoppers. */
export interface ShopperMails {
  /**
   * Stores the acknowledgement of a withdrawal. It becomes due when the withdrawal is recorded, or after two minutes: then
   * the process that sends it records the withdrawal. A repeat with the same key stores none.
   *
   * @returns the time of the receipt; undefined when the address has got ten such mails within a day.
   */
  addWithdrawal(
    of: NewWithdrawal,
  ): Promise<{ readonly declaredAt: Date; due(): Promise<void> } | undefined>;
}

/** Acknowledgements to one address within a day, so that nobody can flood it. */
const MAX_A_DAY = 10;

export function createShopperMails(pool: pg.Pool, wake: () => void): ShopperMails {
  return {
    async addWithdrawal(of) {
      const { shopId } = of;
      const subject = `withdrawal:${of.idempotencyKey}`;
      const stored = await inTransaction(pool, (tx) => store(tx, of, subject));
      if (!stored) return undefined;
      return {
        declaredAt: new Date(stored.declared_at),
        async due() {
          await pool.query(
            `update mails set due_at = now()
              where shop_id = $1 and subject = $2 and declaration is not null
                and ended is null and lease_token is null and attempts = 0`,
            [shopId, subject],
          );
          wake();
        },
      };
    },
  };
}

/** Undefined when the address has its mails of the day. */
async function store(
  tx: Queryable,
  of: NewWithdrawal,
  subject: string,
): Promise<StoredDeclaration | undefined> {
  // Two calls with one key, and two for one address, run one after the other.
  await tx.query(`select pg_advisory_xact_lock(hashtextextended('withdrawals:' || lower($1), 0))`, [
    of.email,
  ]);
  const { rows } = await tx.query<{ declaration: unknown }>(
    'select declaration from mails where shop_id = $1 and subject = $2 and declaration is not null',
    [of.shopId, subject],
  );
  if (rows[0]) return declarationShape.parse(rows[0].declaration);
  const sent = await tx.query<{ count: number }>(
    `select count(*)::int as count from mails
      where lower(declaration ->> 'email') = lower($1) and created_at > now() - interval '1 day' and declaration is not null`,
    [of.email],
  );
  if (onlyRow(sent).count >= MAX_A_DAY) return undefined;
  const declaration: StoredDeclaration = {
    ...{ key: of.idempotencyKey, order_name: of.orderName, name: of.name, email: of.email },
    ...{ language: of.language, declared_at: new Date().toISOString() },
  };
  await tx.query(
    `insert into mails (shop_id, kind, subject, facts, is_gathering, due_at, declaration)
     values ($1, $2, $3, $4, false, now() + interval '2 minutes', $5)`,
    [
      of.shopId,
      WITHDRAWAL_KIND,
      subject,
      JSON.stringify([{ kind: WITHDRAWAL_KIND }]),
      JSON.stringify(declaration),
    ],
  );
  return declaration;
}

/** Records the withdrawal of a mail, unless it is recorded. @returns the time of the receipt. */
export async function recordDeclared(
  returns: Pick<Services['returns'], 'declareWithdrawal'>,
  shopId: bigint,
  { key, order_name: orderName, name, email, declared_at }: StoredDeclaration,
): Promise<Date> {
  const declaredAt = new Date(declared_at);
  const { withdrawal } = await returns.declareWithdrawal({
    ...{ shopId, actor: SHOPPER, idempotencyKey: key, orderName, name, email },
    declaredAt: timestampFromDate(declaredAt),
  });
  return withdrawal?.declaredAt ? timestampDate(withdrawal.declaredAt) : declaredAt;
}

/** The acknowledgement (Directive 2011/83/EU, Article 11a(4)): what was declared, and when it was received. */
export function withdrawalMail(
  of: StoredDeclaration,
  { shopName: shop, declaredAt }: { readonly shopName: string; readonly declaredAt: Date },
): Omit<Message, 'messageId'> {
  const { text, time } = wordsIn(of.language);
  const lines = [
    text('withdrawMailText', { shop }),
    '',
    text('withdrawStatement'),
    '',
    `${text('withdrawName')}: ${of.name}`,
    `${text('order')}: ${of.order_name}`,
    `${text('withdrawEmail')}: ${of.email}`,
    `${text('withdrawAt')}: ${time(declaredAt)}`,
    '',
    text('withdrawMailNext'),
  ];
  return {
    to: of.email,
    subject: text('withdrawSubject', { order: of.order_name, shop }),
    text: `${lines.join('\n')}\n`,
  };
}
