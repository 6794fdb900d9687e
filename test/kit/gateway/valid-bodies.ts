import type { OperationId } from '../../../services/contract/operation.ts';
import { FAKE } from './fake-objects.ts';

const HOOK = { topic: 'return', trigger: 'return.closed', url: 'https://hooks.example.com/' };

/** A body for each operation that has one, which the fake services accept. */
export const VALID_BODIES: Readonly<Partial<Record<OperationId, object>>> = {
  createWebhook: HOOK,
  updateWebhook: HOOK,
  testWebhook: {},
  rotateWebhookSecret: {},
  previewReplay: { from: '2026-11-20T10:00:00Z' },
  startReplay: { from: '2026-11-20T10:00:00Z' },
  assessDispositions: { items: [{ line_item_id: Number(FAKE.lineItem) }] },
  gradeItems: { items: [{ line_item_id: Number(FAKE.lineItem), category: 'grade_b' }] },
  updateDestination: { name: 'North' },
  createFraudReport: {},
  recordLabel: { carrier: 'Evri' },
  updateLabel: { status: 'in_transit', occurred_at: '2026-11-20T10:00:00Z' },
  recordGiftCard: { order_id: 7, amount: '8.00', currency: 'GBP' },
  processReturn: {},
  createCart: { cart: [1] },
};
