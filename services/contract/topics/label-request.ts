import { z } from 'zod';
import type { LabelRequest } from '../../../proto/gen/rms/returns/v1/return_pb.ts';
import { destinationAddress } from '../resources/destination.ts';
import { means, nullableText, time } from '../resources/response-fields.ts';
import { addressView } from '../views/destination.ts';
import { iso, textOrNull } from '../views/values.ts';
import { known, shopId, type TopicShape } from './topic.ts';

const place = (what: string) => means(destinationAddress.nullable(), what);
const money = z.object({
  amount: means(nullableText(), 'Price, a decimal number as text; null when unknown'),
  currency: means(nullableText(), 'Currency of the shop, an ISO 4217 code; null when unknown'),
});

/** The topic for third-party label providers. */
export const labelRequest: TopicShape = {
  about: 'What a label provider needs to make a label: addresses, parcel, products.',
  triggers: ['label.request.issued', 'label.request.cancelled'],
  schema: {
    id: means(z.int(), 'Identifier of the label request'),
    return_id: means(z.int(), 'The return that needs a label'),
    shop_id: shopId,
    created_at: means(time(), 'When the label was requested'),
    addresses: means(
      z.object({
        origin: place("Where the parcel starts: the shopper's address; null when unknown"),
        destination: place('Where it goes: the destination of the return; null when unknown'),
      }),
      'Where the parcel starts and goes',
    ),
    parcel: means(
      z.object({
        length: means(z.int(), 'Length in centimetres'),
        width: means(z.int(), 'Width in centimetres'),
        height: means(z.int(), 'Height in centimetres'),
        weight: means(z.int(), 'Weight of the goods in grams; 0 when unknown'),
      }),
      'Size of the parcel as the settings of the shop say, and weight of the goods',
    ),
    products: means(
      z.array(
        z.object({
          name: known(nullableText(), 'Title of the product'),
          sku: known(nullableText(), 'Stock keeping unit'),
          hs_code: known(nullableText(), 'Harmonised System code, for customs'),
          country_of_origin: known(nullableText(), 'ISO 3166 code of the country of origin'),
          price: means(money, 'Price of the goods, for customs'),
        }),
      ),
      'The goods in the parcel',
    ),
  },
  build(event) {
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
  },
};

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
