import type { Policy } from '../../../proto/gen/rms/returns/v1/policy_pb.ts';
import { FLAG_REASONS_MAX } from '../../contract/limits.ts';
import type { Queryable } from '../../platform/postgres/postgres.ts';
import { normalForm } from '../../platform/values/text.ts';
import { reviewReasons } from './policy.ts';

/** What the review of a new return needs of the submission. Amounts are in minor units of the shop's currency. */
export interface SubmissionFacts {
  readonly shopId: bigint;
  /** Null when unknown. */
  readonly email: string | null;
  readonly createdAt: Date;
  readonly goods: bigint;
  readonly currency: string;
  readonly lines: readonly { readonly reason: string }[];
  /** The flag reasons that the submission states. */
  readonly flagReasons: readonly string[];
}

/**
 * Returns the flag reasons of a new return: the stated ones, and one for each condition of the policy that it meets.
 * Call it in the transaction of the submission, before the return is stored. If the policy counts the returns of a
 * shopper, submissions with the same e-mail address run one after the other from here on, so that each counts those
 * before it.
 */
export async function reviewedFlagReasons(
  tx: Queryable,
  policy: Policy,
  facts: SubmissionFacts,
): Promise<string[]> {
  const shopper = await shopperFacts(tx, policy, facts);
  const reasons = facts.lines.map((line) => line.reason);
  const found = reviewReasons(policy, { ...facts, ...shopper, reasons });
  return [...new Set([...found, ...facts.flagReasons])].slice(0, FLAG_REASONS_MAX);
}

const COUNT = `
select (select count(*)::int from (
          select from returns
           where shop_id = $1 and lower(normal_form(customer_email)) = lower(normal_form($2))
             and created_at > $3::timestamptz - make_interval(days => $4) and state <> 'cancelled'
           limit $5) found) as returns,
       $6 and exists (
         select from returns
          where shop_id = $1 and lower(normal_form(customer_email)) = lower(normal_form($2))
            and fraud_reported_at is not null) as reported`;

/** Counts the returns of the shopper, the new one included. Cancelled returns do not count. */
async function shopperFacts(
  tx: Queryable,
  { review }: Policy,
  { shopId, email, createdAt }: SubmissionFacts,
): Promise<{ readonly returnsOfShopper: number; readonly hasFraudReport: boolean }> {
  const { returnsAbove = 0, returnsDays = 0, fraudReport = false } = review ?? {};
  if (email === null || (returnsAbove === 0 && !fraudReport)) {
    return { returnsOfShopper: 0, hasFraudReport: false };
  }
  if (returnsAbove > 0) {
    await tx.query('select pg_advisory_xact_lock(hashtextextended($1, 0))', [
      `${shopId}:shopper:${normalForm(email).toLowerCase()}`,
    ]);
  }
  const { rows } = await tx.query<{ returns: number; reported: boolean }>({
    // Planned at each call, as in `elsewhereOf`.
    text: COUNT,
    values: [shopId, email, createdAt, returnsDays, returnsAbove, fraudReport],
  });
  return {
    returnsOfShopper: 1 + (rows[0]?.returns ?? 0),
    hasFraudReport: rows[0]?.reported ?? false,
  };
}
