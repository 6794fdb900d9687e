import type { Event } from '../../../proto/gen/rms/events/v1/events_pb.ts';
import type { LabelRequest } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { addressView } from './destination.ts';
import { iso, textOrNull } from './values.ts';

/** Payload of topic `label.request`, for third-party label providers. */
export function labelRequestPayload(event: Event): object | undefined {
  const request = event.detail.case === 'labelRequest' ? event.detail.value : undefined;
  if (!request) return undefined;
  const { parcel } = request;
  return {
    id: Number(request.id),
    return_id: Number(request.returnId),
    shop_id: Number(event.shopId),
    created_at: iso(request.createdAt),
    addresses: {
      origin: request.origin ? addressView(request.origin) : null,
      destination: request.destination ? addressView(request.destination) : null,
    },
    parcel: {
      length: parcel?.lengthCm ?? 0,
      width: parcel?.widthCm ?? 0,
      height: parcel?.heightCm ?? 0,
      weight: parcel?.weightG ?? 0,
    },
    products: request.products.map(productView),
  };
}

function productView(product: LabelRequest['products'][number]): object {
  return {
    name: textOrNull(product.name),
    sku: textOrNull(product.sku),
    hs_code: textOrNull(product.hsCode),
    country_of_origin: textOrNull(product.countryOfOrigin),
    price: {
      amount: textOrNull(product.price?.value),
      currency: textOrNull(product.price?.currency),
    },
  };
}
