import { create } from '@bufbuild/protobuf';
import type pg from 'pg';
import { z } from 'zod';
import {
  type Policy,
  type PolicyPreview,
  PolicyPreviewExampleSchema,
  PolicyPreviewSchema,
  type PreviewPolicyRequest,
  type PreviewPolicyResponse,
  PreviewPolicyResponseSchema,
} from '../../../proto/gen/rms/returns/v1/policy_pb.ts';
import { OutcomeSchema, ReturnMethodSchema } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import type { OrderFacts } from '../../commerce/provider.ts';
import type { Queryable } from '../../platform/postgres/postgres.ts';
import { enumText } from '../../platform/values/enum-text.ts';
import { callerShape, parseInput } from '../../platform/values/input.ts';
import { minorOf } from '../../platform/values/money.ts';
import { loadSettings } from '../settings.ts';
import { labelStatusText, stateText } from '../store/texts.ts';
import type { OrderFactsRow } from '../submit/submit-store.ts';
import { judgeStored, type StoredReturn } from './judge-stored.ts';
import { hasArrived } from './policy.ts';
import { canonical } from './validate.ts';

const PREVIEW_DAYS = 90;
const RETURNS_MAX = 10_000;
const EXAMPLES_MAX = 20;
/** Number of returns in one statement, so that each is short. */
const PAGE = 500;

const outcomeText = enumText(OutcomeSchema);
const returnMethodText = enumText(ReturnMethodSchema);
const caller = z.object(callerShape);

/**
 * Judges the returns of the last 90 days by a draft of a policy, the newest first and at most 10,000. Writes nothing.
 *
 * @throws DomainError INVALID_ARGUMENT with the path of the invalid field; SHOP_NOT_CONFIGURED.
 */
export async function previewPolicy(
  pool: pg.Pool,
  request: PreviewPolicyRequest,
): Promise<PreviewPolicyResponse> {
  const { shopId } = parseInput(caller, request);
  const { currency } = await loadSettings(pool, shopId);
  const draft = canonical(request.policy, currency);
  const response = create(PreviewPolicyResponseSchema, {
    refused: create(PolicyPreviewSchema),
    reviewed: create(PolicyPreviewSchema),
    processed: create(PolicyPreviewSchema),
    notJudged: create(PolicyPreviewSchema),
  });
  const { refused, reviewed, processed, notJudged } = response;
  let after: Row | undefined;
  for (;;) {
    const rows: readonly Row[] = await readPage(pool, { shopId, draft, after });
    for (const row of rows) {
      // One more was there.
      if (response.judged === RETURNS_MAX) return { ...response, more: true };
      response.judged++;
      const verdict = judgeStored(draft, storedReturn(row, currency), currency);
      add(refused, row, verdict.refused);
      add(reviewed, row, verdict.reviewed);
      add(processed, row, verdict.processed);
      add(notJudged, row, verdict.notJudged);
    }
    if (rows.length < PAGE) return response;
    after = rows.at(-1);
  }
}

function add(to: PolicyPreview | undefined, row: Row, reason: string | undefined): void {
  if (!to || reason === undefined) return;
  to.count++;
  if (to.examples.length === EXAMPLES_MAX) return;
  const example = { returnId: row.id, orderName: row.order_name, reason };
  to.examples.push(create(PolicyPreviewExampleSchema, example));
}

interface Row {
  readonly id: bigint;
  readonly created_at: Date;
  readonly order_name: string;
  readonly state: string;
  readonly outcome: string;
  readonly return_method: string;
  readonly goods: string;
  readonly payable: string;
  readonly country: string | null;
  readonly order_facts: OrderFactsRow | null;
  readonly returns_of_shopper: number;
  readonly has_fraud_report: boolean;
  readonly lines: readonly LineRow[];
  readonly labels: readonly { readonly ids: readonly number[]; readonly status: string }[];
}

interface LineRow {
  readonly id: number;
  /** The provider's id of the order line. */
  readonly order_line: number;
  readonly sku: string;
  readonly product_id: number;
  readonly reason: string;
  readonly quantity: number;
  readonly arrived: number;
  readonly is_returned: boolean;
  readonly is_graded: boolean;
  readonly is_missing: boolean;
}

// `other` are returns with the same e-mail address. Of each state an index has the returns in this order.
const READ_PAGE = `
select r.id, r.created_at, r.order_name, r.state, r.outcome, r.return_method, r.return_total::text as goods,
       (r.refund + r.return_credit)::text as payable, r.order_facts, nullif(r.customer_address ->> 'countryCode', '') as country,
       (select count(*)::int from (
          select from returns other
           where $5 > 0 and other.shop_id = r.shop_id
             and lower(normal_form(other.customer_email)) = lower(normal_form(r.customer_email))
             and other.created_at > r.created_at - make_interval(days => $6)
             and (other.created_at, other.id) <= (r.created_at, r.id) and other.state <> 'cancelled'
           limit $5 + 1) counted) as returns_of_shopper,
       exists (
         select from returns other
          where other.shop_id = r.shop_id and other.fraud_reported_at < r.created_at
            and lower(normal_form(other.customer_email)) = lower(normal_form(r.customer_email))
       ) as has_fraud_report,
       array_to_json(array(
         select json_build_object(
                  'id', l.id, 'order_line', l.provider_line_item_id, 'sku', l.sku, 'product_id', l.product_id, 'reason', l.reason, 'quantity', l.quantity,
                  'arrived', l.arrived_quantity, 'is_returned', l.returned_at is not null,
                  'is_graded', coalesce(c.grade, c.category_name) is not null,
                  'is_missing', d.outcome is not distinct from 'missing')
           from return_lines l
           left join line_conditions c on c.shop_id = l.shop_id and c.line_item_id = l.id
           left join line_dispositions d on d.shop_id = l.shop_id and d.line_item_id = l.id
          where l.shop_id = r.shop_id and l.return_id = r.id and l.removed_at is null
          order by l.position)) as lines,
       array_to_json(array(
         select json_build_object('ids', b.line_item_ids, 'status', b.status)
           from labels b where b.shop_id = r.shop_id and b.return_id = r.id)) as labels
  from unnest('{open,review,closed,cancelled,expired}'::text[]) as of_state (state)
 cross join lateral (
       select shop_id, id, created_at, order_name, state, outcome, return_method, return_total, refund, return_credit,
              order_facts, customer_address, customer_email
         from returns
        where shop_id = $1 and state = of_state.state and created_at >= now() - make_interval(days => $2)
          and (created_at, id) < ($3, $4)
        order by created_at desc, id desc limit ${PAGE}) r
 order by r.created_at desc, r.id desc
 limit ${PAGE}`;

/** After every return. */
const FIRST = { created_at: new Date('9999-01-01T00:00:00Z'), id: 0n };

async function readPage(
  db: Queryable,
  o: { readonly shopId: bigint; readonly draft: Policy; readonly after: Row | undefined },
): Promise<readonly Row[]> {
  const { created_at, id } = o.after ?? FIRST;
  const { returnsAbove = 0, returnsDays = 0 } = o.draft.review ?? {};
  const { rows } = await db.query<Row>({
    // Planned at each call, as in `elsewhereOf`.
    text: READ_PAGE,
    values: [o.shopId, PREVIEW_DAYS, created_at, id, returnsAbove, returnsDays],
  });
  return rows;
}

function storedReturn(row: Row, currency: string): StoredReturn {
  return {
    state: stateText.fromText(row.state),
    outcome: outcomeText.fromText(row.outcome),
    returnMethod: returnMethodText.fromText(row.return_method),
    createdAt: row.created_at,
    facts: row.order_facts ? factsOf(row.order_facts) : undefined,
    country: row.order_facts?.country ?? row.country ?? undefined,
    goods: minorOf(row.goods, currency),
    payable: minorOf(row.payable, currency),
    returnsOfShopper: row.returns_of_shopper,
    hasFraudReport: row.has_fraud_report,
    lineItems: row.lines.map((line) => toLine(line, row.order_facts)),
    labels: row.labels.map(({ ids, status }) => ({
      lineItemIds: ids.map(BigInt),
      status: labelStatusText.fromText(status),
    })),
  };
}

function factsOf(row: OrderFactsRow): OrderFacts {
  const time = (text: string | undefined) => (text === undefined ? undefined : new Date(text));
  return {
    orderedAt: time(row.ordered_at),
    fulfilledAt: time(row.fulfilled_at),
    deliveredAt: time(row.delivered_at),
  };
}

function toLine(row: LineRow, facts: OrderFactsRow | null): StoredReturn['lineItems'][number] {
  return {
    lineItemId: BigInt(row.id),
    sku: row.sku,
    productId: row.product_id === 0 ? undefined : BigInt(row.product_id),
    tags: facts?.tags[row.order_line],
    reason: row.reason,
    isMissing: row.is_missing,
    hasArrived: hasArrived({
      quantity: row.quantity,
      arrivedQuantity: row.arrived,
      isReturned: row.is_returned,
    }),
    isGraded: row.is_graded,
  };
}
