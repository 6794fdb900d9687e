import { create } from '@bufbuild/protobuf';
import { Code, type ServiceImpl } from '@connectrpc/connect';
import { CartSchema, type CartsService } from '../../../proto/gen/rms/carts/v1/carts_pb.ts';
import {
  type CommerceService,
  EffectKind,
  EffectState,
} from '../../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import { ErrorReason } from '../../../proto/gen/rms/common/v1/error_pb.ts';
import {
  type DestinationsService,
  DestinationType,
} from '../../../proto/gen/rms/destinations/v1/destinations_pb.ts';
import type { DispositionsService } from '../../../proto/gen/rms/dispositions/v1/dispositions_pb.ts';
import type { FraudService } from '../../../proto/gen/rms/fraud/v1/fraud_pb.ts';
import {
  Ineligibility_Code,
  NotEligibleSchema,
} from '../../../proto/gen/rms/returns/v1/policy_pb.ts';
import { DispositionOutcome } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import {
  ProcessReturnResponseSchema,
  ProcessReturnResponse_Refused_Code as RefusedCode,
  type ReturnsService,
} from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { examplePolicy } from '../../../services/contract/examples/policy.ts';
import type { RPC_SERVICES } from '../../../services/platform/rpc/callers.ts';
import { DomainError } from '../../../services/platform/values/errors.ts';
import { idempotencyConflict } from '../../../services/platform/values/idempotency.ts';
import {
  FAKE,
  NOW,
  sampleDestinations,
  sampleEligibility,
  sampleLabel,
  sampleReport,
  sampleReturn,
} from './fake-objects.ts';
import { fakeReturnTools } from './fake-return-tools.ts';
import { fakeWebhooks } from './fake-webhooks.ts';

/** The RPCs whose behaviour a test may replace. */
export type FakeServices = {
  readonly [Name in keyof typeof RPC_SERVICES]: Partial<ServiceImpl<(typeof RPC_SERVICES)[Name]>>;
};

function notFound(reason: ErrorReason, text: string): DomainError {
  return new DomainError(Code.NotFound, reason, text);
}

const returns: Partial<ServiceImpl<typeof ReturnsService>> = {
  findReturn: ({ shopId, selector }) => {
    const exists =
      selector.case === 'orderName'
        ? selector.value === '#1001'
        : selector.value === FAKE.returns.open;
    if (shopId !== FAKE.shopId || !exists)
      throw notFound(ErrorReason.RETURN_NOT_FOUND, 'no return');
    return { return: sampleReturn() };
  },
  processReturn: ({ returnId }) => {
    const { open, flagged, closed, ofShopWithoutProvider } = FAKE.returns;
    if (returnId === open) {
      return create(ProcessReturnResponseSchema, { result: { case: 'queued', value: {} } });
    }
    const code = new Map<bigint, RefusedCode>([
      [flagged, RefusedCode.UNPROCESSABLE_FLAGGED_RETURN],
      [closed, RefusedCode.UNPROCESSABLE_RETURN],
      [ofShopWithoutProvider, RefusedCode.NO_COMMERCE_PROVIDER],
    ]).get(returnId);
    if (code === undefined) throw notFound(ErrorReason.RETURN_NOT_FOUND, 'no return');
    const value = { code, message: 'It cannot be processed.' };
    return create(ProcessReturnResponseSchema, { result: { case: 'refused', value } });
  },
  checkReturn: ({ returnId }) => {
    if (returnId !== FAKE.returns.open) throw notFound(ErrorReason.RETURN_NOT_FOUND, 'no return');
    return { process: { result: { case: 'queued', value: {} } } };
  },
  recordLabel: ({ returnId, carrier, idempotencyKey }) => {
    if (returnId === FAKE.returns.closed) {
      throw new DomainError(
        Code.FailedPrecondition,
        ErrorReason.STATE_FORBIDS,
        'the return is closed',
      );
    }
    if (returnId !== FAKE.returns.open) throw notFound(ErrorReason.RETURN_NOT_FOUND, 'no return');
    if (carrier === FAKE.otherContent) throw idempotencyConflict();
    return { label: { ...sampleLabel(), carrier, url: idempotencyKey } };
  },
  recordGiftCard({ returnId, providerOrderId, name, amount, currency }) {
    if (returnId === FAKE.returns.closed) {
      throw new DomainError(
        Code.FailedPrecondition,
        ErrorReason.STATE_FORBIDS,
        'no gift card was requested for the return',
      );
    }
    if (returnId !== FAKE.returns.open) throw notFound(ErrorReason.RETURN_NOT_FOUND, 'no return');
    const money = { value: amount, currency };
    return { giftCard: { id: 61n, returnId, providerOrderId, name, money, issuedAt: NOW } };
  },
  updateLabel: ({ labelId, status }) => {
    if (labelId !== FAKE.label) throw notFound(ErrorReason.LABEL_NOT_FOUND, 'no such label');
    return { label: { ...sampleLabel(), status }, ignored: false };
  },
  getSettings: () => ({ settings: { currency: 'GBP' } }),
  findShopperPage: () => {
    throw notFound(ErrorReason.UNSPECIFIED, 'no shop has this handle');
  },
  listWithdrawals: () => ({ withdrawals: [] }),
  returnWithdrawal: () => ({ return: sampleReturn() }),
  getPolicy: () => examplePolicy(),
  updatePolicy: ({ policy, expectedVersion }) => ({
    version: expectedVersion + 1n,
    ...(policy && { policy }),
  }),
  previewPolicy: () => ({ judged: 1, refused: { count: 1 } }),
  updateSettings: ({ settings }) => (settings ? { settings } : {}),
  getEligibility: ({ order }) => {
    if (!isOrder(order.value)) {
      throw notFound(ErrorReason.ORDER_NOT_FOUND, 'no such order');
    }
    return { eligibility: sampleEligibility() };
  },
  submitReturn: ({ order, lines: [line] }) => {
    if (!isOrder(order?.name)) {
      throw notFound(ErrorReason.ORDER_NOT_FOUND, 'no such order');
    }
    if (line?.providerLineItemId === FAKE.soldLine) throw notEligible(FAKE.soldLine);
    if (line?.comment === FAKE.otherContent) throw idempotencyConflict();
    return { return: sampleReturn(), repeated: line?.comment === FAKE.repeated };
  },
  ...fakeReturnTools(),
};

const commerce: Partial<ServiceImpl<typeof CommerceService>> = {
  getConnection: () => {
    throw notFound(ErrorReason.COMMERCE_CONNECTION_NOT_FOUND, 'the shop is not connected');
  },
  connect: ({ url }) => ({ connection: { url } }),
  rotateSecret: () => ({ secret: { value: 'whsec_fake' } }),
  disconnect: () => ({ disconnected: false }),
  startCheck: () => ({}),
  getLastCheck: () => ({}),
  createShopifyInstallLink: () => ({ link: 'fake' }),
  listEffects: ({ returnId }) => {
    if (returnId !== FAKE.returns.open) throw notFound(ErrorReason.RETURN_NOT_FOUND, 'no return');
    const key = `rms:return:${returnId}:refund`;
    const amount = { value: '12.50', currency: 'GBP' };
    const [kind, state] = [EffectKind.REFUND, EffectState.UNKNOWN];
    return { effects: [{ kind, key, state, amount, requestedAt: NOW }] };
  },
};

/** The fake platform has an order #1001, and the sample orders. */
const isOrder = (name: unknown): boolean => /^(?:#1001|#T10(?:-\d+)?)$/.test(String(name));

function notEligible(id: bigint): DomainError {
  const value = {
    lines: [{ providerLineItemId: id, code: Ineligibility_Code.WINDOW_ENDED }],
  };
  return new DomainError(
    Code.FailedPrecondition,
    ErrorReason.NOT_ELIGIBLE,
    `order line ${id} cannot be returned`,
    { detail: { desc: NotEligibleSchema, value } },
  );
}

function lineItemNotFound(index: number): DomainError {
  const field = `items[${index}].line_item_id`;
  const text = `${field} must be the id of an existing line item`;
  return new DomainError(Code.InvalidArgument, ErrorReason.LINE_ITEM_NOT_FOUND, text, { field });
}

const dispositions: Partial<ServiceImpl<typeof DispositionsService>> = {
  getDispositions: () => ({ items: [] }),
  getSettings: () => ({ settings: { defaultOutcome: DispositionOutcome.BACK_TO_STOCK } }),
  gradeItems: ({ items }) => ({
    items: items.map(({ lineItemId }, index) => {
      if (lineItemId !== FAKE.lineItem) throw lineItemNotFound(index);
      return { lineItemId, condition: { subject: 'item', title: 'Grade B', grade: 'b' } };
    }),
  }),
  assess: ({ items, withoutNotes }) => ({
    items: items.map((item, index) => {
      if (item.lineItemId !== FAKE.lineItem && item.lineItemId < FAKE.manyLinesFrom) {
        throw lineItemNotFound(index);
      }
      if (item.note === FAKE.oversizedNote) {
        throw new DomainError(
          Code.InvalidArgument,
          ErrorReason.RETURN_TOO_LARGE,
          'the details of return 11 would be larger than 24 MiB (25165824 bytes)',
        );
      }
      const outcome = item.outcome || DispositionOutcome.BACK_TO_STOCK;
      const { returnProcessor, note } = item;
      return {
        lineItemId: item.lineItemId,
        disposition: {
          outcome,
          inspectedAt: item.inspectedAt ?? NOW,
          ...(returnProcessor !== undefined && { returnProcessor }),
          ...(note !== undefined && !withoutNotes && { note }),
        },
      };
    }),
  }),
};

const destinations: Partial<ServiceImpl<typeof DestinationsService>> = {
  listDestinations: () => ({ destinations: sampleDestinations() }),
  getDestination: ({ destinationId }) => {
    const destination = sampleDestinations().find(({ id }) => id === destinationId);
    if (!destination) throw notFound(ErrorReason.DESTINATION_NOT_FOUND, 'no destination');
    return { destination };
  },
  updateDestination: ({ destinationId, name, type, enabled, address }) => {
    if (destinationId !== FAKE.destination) {
      throw notFound(ErrorReason.DESTINATION_NOT_FOUND, 'no destination');
    }
    return {
      destination: {
        id: destinationId,
        name,
        type: type || DestinationType.WAREHOUSE,
        enabled: enabled ?? true,
        ...(address && { address }),
      },
    };
  },
};

const fraud: Partial<ServiceImpl<typeof FraudService>> = {
  getReport: ({ returnId }) => {
    if (returnId === FAKE.returns.reported) return { report: sampleReport() };
    throw notFound(ErrorReason.FRAUD_REPORT_NOT_FOUND, 'no report');
  },
  listCategories: () => ({
    categories: [{ id: 'other', title: 'Other', commentRequired: true }],
  }),
  createReport: ({ returnId, category, comment }) => {
    if (returnId === FAKE.returns.reported) {
      throw new DomainError(Code.AlreadyExists, ErrorReason.FRAUD_REPORT_EXISTS, 'reported');
    }
    if (returnId !== FAKE.returns.open) throw notFound(ErrorReason.RETURN_NOT_FOUND, 'no return');
    return {
      report: {
        id: 1n,
        returnId,
        createdAt: NOW,
        ...(category !== undefined && { category }),
        ...(comment !== undefined && { comment }),
      },
    };
  },
};

const carts: Partial<ServiceImpl<typeof CartsService>> = {
  getCart: ({ token }) => {
    if (token !== FAKE.cartToken) throw notFound(ErrorReason.CART_NOT_FOUND, 'no cart');
    return { cart: { token, entries: [{ variantId: 1n }] } };
  },
  createCart: ({ entries, shopify, shopifyNull }) => ({
    cart: create(CartSchema, {
      token: FAKE.cartToken,
      entries,
      shopifyNull,
      ...(shopify !== undefined && { shopify }),
    }),
  }),
};

/** New objects at each call, whose behaviour a test may replace. */
export function fakeServices(): FakeServices {
  return {
    returns: { ...returns },
    commerce: { ...commerce },
    dispositions: { ...dispositions },
    destinations: { ...destinations },
    fraud: { ...fraud },
    carts: { ...carts },
    webhooks: { ...fakeWebhooks },
  };
}
