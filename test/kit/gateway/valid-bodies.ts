import { randomUUID } from 'node:crypto';
import type { Operation, OperationId } from '../../../services/contract/operation.ts';
import { FAKE } from './fake-objects.ts';

const HOOK = { topic: 'return', trigger: 'return.closed', url: 'https://hooks.example.com/' };

/** The header that an operation requires. */
export function keyHeader({ keyed }: Operation): Record<string, string> {
  return keyed === 'required' ? { 'idempotency-key': randomUUID() } : {};
}

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
  submitReturn: { order_name: '#1001', items: [{ provider_line_item_id: 9001, quantity: 1 }] },
  createFraudReport: {},
  recordArrival: {
    return_id: Number(FAKE.returns.open),
    items: [{ line_item_id: Number(FAKE.lineItem), quantity: 1 }],
  },
  recordLabel: { carrier: 'Evri' },
  updateLabel: { status: 'in_transit', occurred_at: '2026-11-20T10:00:00Z' },
  recordGiftCard: { order_id: 7, amount: '8.00', currency: 'GBP' },
  cancelReturn: {},
  processReturn: {},
  createCart: { cart: [1] },
};
