import { randomInt } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  CustomerUpload_Kind,
  type Return,
  ReturnState,
  ReturnType,
} from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import type { EmbeddedCommerce } from '../../../services/commerce/embedded.ts';
import { type Clients, LOCAL_ACTOR } from '../clients.ts';
import { type DemoShop, type SubmissionOptions, submission, timestampOf } from './submission.ts';

/** A return in the stack file. */
export interface Ref {
  readonly id: number;
  readonly order_id: number;
  readonly provider_order_id: number;
  readonly order_name: string;
  readonly line_item_ids: readonly number[];
}

export interface FixtureContext {
  readonly clients: Clients;
  readonly shop: DemoShop;
  /** The start of the seeding. Times in submissions are relative to it, so that a repeated call sends the same. */
  readonly seededAt: Date;
  readonly commerce: Pick<EmbeddedCommerce, 'failNext'>;
}

type Options = Omit<SubmissionOptions, 'key' | 'serial'>;
type Step = (context: FixtureContext, made: Return, key: string) => Promise<unknown>;

interface Recipe {
  readonly options?: Options;
  /** Age of its submission and of its label, in days; 0 by default. */
  readonly ageDays?: number;
  /** Number of labels to record; 1 by default. */
  readonly labels?: number;
  readonly steps?: readonly Step[];
}

const DAY_MS = 86_400_000;

/** Number of failures of a return of the kind `fails`; in practice it always fails. */
const ALWAYS = 1_000_000;

const caller = (context: FixtureContext) => ({
  shopId: BigInt(context.shop.id),
  actor: LOCAL_ACTOR,
});

const openInstantRefund: Step = (context, made, key) =>
  context.clients.returns.openInstantRefund({
    ...caller(context),
    idempotencyKey: `${key}:credit`,
    returnId: made.id,
    amount: made.presentmentTotals?.refund ?? '0',
    chargeReference: 'demo-authorisation',
  });

const flag: Step = async (context, made) => {
  if (made.state !== ReturnState.OPEN) return;
  const reasons = ['Unusual number of returns'];
  await context.clients.returns.flagReturn({ ...caller(context), returnId: made.id, reasons });
};

const close: Step = async (context, made) => {
  await context.clients.returns.processReturn({
    ...caller(context),
    returnId: made.id,
    source: 'api',
  });
  await untilState(context, made.id, ReturnState.CLOSED);
};

const cancel: Step = async (context, made) => {
  if (made.state !== ReturnState.OPEN) return;
  await context.clients.returns.cancelReturn({
    ...caller(context),
    returnId: made.id,
    reason: 'Kept it',
  });
};

const expire: Step = (context) => context.clients.returns.sweepExpired(caller(context));

const fail: Step = ({ commerce }, made) =>
  commerce.failNext({ returnId: made.id, kind: 'final', times: ALWAYS });

const grade: Step = (context, made) =>
  context.clients.dispositions.gradeItems({
    ...caller(context),
    items: made.lineItems.map(({ lineItemId }, at) => ({
      lineItemId,
      category: at % 2 ? 'incorrect_item' : 'grade_b',
      description: 'Looked at on arrival',
      inspectedAt: timestampOf(new Date('2026-11-01T10:00:00Z')),
    })),
  });

const upload: Step = async (context, made) => {
  const lineItemId = made.lineItems[0]?.lineItemId ?? 0n;
  if (made.lineItems.some((line) => line.uploads.length > 0)) return;
  for (const kind of [CustomerUpload_Kind.IMAGE, CustomerUpload_Kind.MEDIA]) {
    const url = `https://uploads.example.com/${made.id}-${kind}`;
    await context.clients.returns.addCustomerUpload({ ...caller(context), lineItemId, kind, url });
  }
};

const reportFraud: Step = async (context, made) => {
  const request = { ...caller(context), returnId: made.id };
  const known = await context.clients.fraud.getReport(request).catch(() => undefined);
  if (!known) await context.clients.fraud.createReport({ ...request, category: 'item-is-worn' });
};

/** The fixtures of the stack file. A fixture without a state is open and can be processed. */
const RECIPES = {
  open: {},
  flagged: { options: { flagReasons: ['Unusual number of returns'] } },
  flagged_instant_refund: { steps: [openInstantRefund, flag] },
  closed: { steps: [close] },
  cancelled: { steps: [cancel] },
  expired: { ageDays: 40, steps: [expire] },
  instant_refund: { steps: [openInstantRefund] },
  exchange: { options: { outcome: 'exchange' } },
  gift_card: { options: { outcome: 'credit' } },
  fails: { steps: [fail] },
  two_currencies: { options: { presentment: 'USD' } },
  zero_decimals: { options: { presentment: 'JPY' } },
  two_labels: { labels: 2 },
  no_label: { labels: 0 },
  graded: { steps: [grade] },
  uploads: { steps: [upload] },
  warranty: { options: { type: ReturnType.WARRANTY } },
  order_with_two_returns: {},
  fraud_reported: { steps: [reportFraud] },
} as const satisfies Record<string, Recipe>;

export type FixtureName = keyof typeof RECIPES;

export const FIXTURE_NAMES = Object.keys(RECIPES) as FixtureName[];

/** A new serial for a fixture; provider ids are derived from it. */
export function freshSerial(): number {
  return randomInt(10_000_000, 2_000_000_000);
}

/** The identity of a fixture; the same identity creates the same fixture. */
export interface FixtureIdentity {
  readonly key: string;
  readonly serial: number;
  /** Number of lines of the return; 2 by default. */
  readonly lines?: number;
}

/**
 * Creates a return of this kind, using only RPCs. A repeated call with the same identity creates no second return, and
 * continues an interrupted call.
 */
export async function makeFixture(
  context: FixtureContext,
  name: FixtureName,
  identity: FixtureIdentity,
): Promise<Ref> {
  const recipe: Recipe = RECIPES[name];
  if (name === 'order_with_two_returns') await makeOlderReturn(context, identity);
  const at = recipe.ageDays === undefined ? undefined : daysBefore(context, recipe.ageDays);
  const options = { ...recipe.options, ...identity, ...(at && { submittedAt: at }) };
  const request = submission(context.shop, options);
  const { return: submitted } = await context.clients.returns.submitReturn(request);
  if (!submitted) throw new Error('SubmitReturn answered without a return');
  for (let nth = 0; nth < (recipe.labels ?? 1); nth += 1) {
    await recordLabel(context, submitted, { key: identity.key, nth, boughtAt: at });
  }
  for (const step of recipe.steps ?? []) await step(context, submitted, identity.key);
  return refOf(submitted);
}

/** The older return of an order that has two. */
async function makeOlderReturn(context: FixtureContext, identity: FixtureIdentity): Promise<void> {
  const older = {
    key: `${identity.key}:older`,
    serial: identity.serial + 2_000_000_000,
    orderSerial: identity.serial,
    submittedAt: daysBefore(context, 1),
  };
  await context.clients.returns.submitReturn(submission(context.shop, older));
}

interface LabelOptions {
  readonly key: string;
  readonly nth: number;
  readonly boughtAt: Date | undefined;
}

async function recordLabel(context: FixtureContext, made: Return, o: LabelOptions): Promise<void> {
  if (made.state !== ReturnState.OPEN && made.state !== ReturnState.REVIEW) return;
  const tracking = `TRACK-${made.id}-${o.nth + 1}`;
  await context.clients.returns.recordLabel({
    ...caller(context),
    idempotencyKey: `${o.key}:label:${o.nth}`,
    returnId: made.id,
    carrier: 'Sample Post',
    trackingNumber: tracking,
    url: `https://labels.example.com/${tracking}.pdf`,
    rate: '4.90',
    lineItemIds: [],
    ...(o.boughtAt && { createdAt: timestampOf(o.boughtAt) }),
  });
}

function daysBefore(context: FixtureContext, days: number): Date {
  return new Date(context.seededAt.getTime() - days * DAY_MS);
}

function refOf(made: Return): Ref {
  return {
    id: Number(made.id),
    order_id: Number(made.order?.id),
    provider_order_id: Number(made.order?.providerOrderId),
    order_name: made.order?.name ?? '',
    line_item_ids: made.lineItems.map((line) => Number(line.lineItemId)),
  };
}

/** Time limit for the processing of a return. Milliseconds. */
const PROCESSING_MS = 30_000;

async function untilState(context: FixtureContext, id: bigint, state: ReturnState): Promise<void> {
  const deadline = Date.now() + PROCESSING_MS;
  while (Date.now() < deadline) {
    const { returns } = await context.clients.returns.getReturns({
      ...caller(context),
      returnIds: [id],
    });
    if (returns[0]?.state === state) return;
    await sleep(20);
  }
  throw new Error(`return ${id} was not processed within ${PROCESSING_MS / 1000} s`);
}
