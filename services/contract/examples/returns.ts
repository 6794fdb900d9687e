import { create } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import type { z } from 'zod';
import {
  EffectKind,
  EffectSchema,
  EffectState,
} from '../../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import { LabelStatus, type Totals } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { ReturnSummarySchema } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { returnDetailsView } from '../details/return-details.ts';
import { reportExists } from '../public-errors.ts';
import type { FraudReportObject, fraudReportBody } from '../resources/fraud-report.ts';
import { isoTime } from '../time.ts';
import { effectView } from '../views/effect.ts';
import { returnPageView } from '../views/return-summary.ts';
import type { OperationExample } from './example.ts';
import { exampleReturn } from './return.ts';
import { AT, PROVIDER_IDS, RETURN_ID } from './story.ts';

const ret = exampleReturn();

/** The totals that a row of the list has. */
function summaryTotals(totals: Totals | undefined) {
  const { total = '', refund = '', returnCreditTotal = '', handlingFee = '' } = totals ?? {};
  return { total, refund, returnCreditTotal, handlingFee };
}

function summary() {
  const { id, state, type, outcome, returnMethod, currency, presentmentCurrency, destinationId } =
    ret;
  const [label] = ret.labels;
  return create(ReturnSummarySchema, {
    id,
    state,
    type,
    outcome,
    returnMethod,
    currency,
    presentmentCurrency,
    destinationId,
    ...(ret.order && { order: ret.order }),
    ...(ret.createdAt && { createdAt: ret.createdAt }),
    ...(ret.updatedAt && { updatedAt: ret.updatedAt }),
    totals: summaryTotals(ret.totals),
    presentmentTotals: summaryTotals(ret.presentmentTotals),
    labelStatus: label?.status ?? LabelStatus.UNSPECIFIED,
    ...(label?.updatedAt && { labelUpdatedAt: label.updatedAt }),
    carrier: label?.carrier ?? '',
    trackingNumber: label?.trackingNumber ?? '',
  });
}

/** The refund that processing requested of the commerce provider. */
function refundEffect() {
  return create(EffectSchema, {
    kind: EffectKind.REFUND,
    key: `rms:return:${RETURN_ID}:5f0c1d9a4b7e4c02a6d38f51b2e94c70:refund`,
    state: EffectState.MADE,
    amount: { value: ret.presentmentTotals?.refund ?? '', currency: ret.presentmentCurrency },
    requestedAt: timestampFromDate(AT.processed),
    answeredAt: timestampFromDate(AT.closed),
    providerId: String(PROVIDER_IDS),
  });
}

const fraud = {
  category: 'item-is-worn',
  comment: 'The scarf is torn and stained.',
} as const satisfies z.input<typeof fraudReportBody>;
const report: FraudReportObject = {
  id: 1,
  return_id: Number(RETURN_ID),
  ...fraud,
  created_at: isoTime(AT.reported),
};

const refusal = {
  message: 'The return is flagged: a user must review it before it can be processed.',
  code: 'UNPROCESSABLE_FLAGGED_RETURN',
};

export const RETURN_EXAMPLES = {
  listReturns: {
    response: returnPageView({ summaries: [summary()], nextCursor: '' }),
    invalid: 'limit=1000',
  },
  getReturnDetails: {
    response: returnDetailsView(ret),
    invalid: `return_id=${RETURN_ID}&order_id=${ret.order?.id}`,
  },
  createFraudReport: {
    request: fraud,
    response: report,
    conflict: reportExists(),
    invalid: { category: 'other' },
  },
  listEffects: { response: { effects: [effectView(refundEffect())] } },
  processReturn: {
    request: { warehouse_reference: 'WH-4711', priority: true },
    responses: {
      queued: { summary: 'The return is queued, or was before', value: true },
      flagged: { summary: 'The return cannot be processed', value: { errors: refusal } },
    },
    invalid: { warehouse_reference: ['WH-4711'] },
  },
} satisfies Record<string, OperationExample>;
