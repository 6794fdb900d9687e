import { LabelProvider } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import type { StackShop } from '../stack.ts';
import type { Ids } from './foreign-requests.ts';
import { callIn, firstOf, type Journey } from './journey.ts';

/** One object of every kind in a shop. Creates the objects that the fixtures lack. */
export async function idsIn({ services }: Journey, shop: StackShop): Promise<Ids> {
  const call = callIn(shop);
  const open = firstOf(shop, 'open');
  const returnId = BigInt(open.id);
  const { returns } = await services.returns.getReturns({ ...call, returnIds: [returnId] });
  const { credit } = await services.returns.openInstantRefund({
    ...call,
    idempotencyKey: 'whole-shop',
    returnId,
    amount: '1.00',
    chargeReference: 'x',
  });
  await services.returns.updateSettings({
    ...call,
    settings: { labelProvider: LabelProvider.THIRD_PARTY },
  });
  const { labelRequest } = await services.returns.requestLabel({
    ...call,
    returnId: BigInt(firstOf(shop, 'no_label').id),
  });
  const { deliveries } = await services.webhooks.listDeliveries(call);
  // This id belongs to no delivery, so the call does not change the log.
  const { replay } = await services.webhooks.startReplay({
    ...call,
    idempotencyKey: 'whole-shop',
    filter: { returnId: 987_654_321n },
  });
  return {
    returnId,
    lineItemId: BigInt(open.line_item_ids[0] ?? 0),
    labelId: returns[0]?.labels[0]?.id ?? 0n,
    requestId: labelRequest?.id ?? 0n,
    creditId: credit?.id ?? 0n,
    destinationId: BigInt(shop.fixtures.destinations.linked),
    subscriptionId: BigInt(shop.fixtures.webhooks[0]?.id ?? 0),
    orderId: BigInt(open.provider_order_id),
    orderName: open.order_name,
    deliveryId: deliveries[0]?.id ?? '',
    replayId: replay?.id ?? 0n,
    token: shop.fixtures.carts[0] ?? '',
    email: returns[0]?.customer?.email ?? '',
  };
}

/** Everything that a caller can read of a shop, as one text to compare. */
export async function wholeShop({ services }: Journey, shop: StackShop): Promise<string> {
  const call = callIn(shop);
  const refs = Object.values(shop.fixtures.returns).flat();
  const returnIds = refs.map(({ id }) => BigInt(id));
  const lineItemIds = refs.flatMap((ref) => ref.line_item_ids.map(BigInt));
  const subscriptionId = BigInt(shop.fixtures.webhooks[0]?.id ?? 0);
  const reported = BigInt(firstOf(shop, 'fraud_reported').id);
  const parts = await Promise.all([
    services.returns.getReturns({ ...call, returnIds }),
    services.returns.getSettings(call),
    services.dispositions.getSettings(call),
    services.dispositions.getDispositions({ ...call, lineItemIds }),
    services.destinations.listDestinations(call),
    // Each reading of the secrets below is recorded.
    services.webhooks
      .listSubscriptions(call)
      .then(({ subscriptions }) =>
        subscriptions.map(({ secretShownAt: _, secretShownTo: __, ...one }) => one),
      ),
    services.webhooks.revealSecret({ ...call, subscriptionId }),
    services.webhooks.getPayloadVersion(call),
    services.webhooks.listDeliveries({ ...call, pageSize: 200 }),
    services.webhooks.listReplays(call),
    services.fraud.getReport({ ...call, returnId: reported }),
    services.carts.getCart({ ...call, token: shop.fixtures.carts[0] ?? '' }),
    ...returnIds.map((returnId) => services.returns.getTimeline({ ...call, returnId })),
  ]);
  return textOf(parts);
}

/** A message as text, large integers included. */
export function textOf(value: unknown): string {
  return JSON.stringify(value, (_, inner) => (typeof inner === 'bigint' ? `${inner}n` : inner));
}
