import { Code } from '@connectrpc/connect';
import {
  GiftCardModeSchema,
  LabelProviderSchema,
  RestockModeSchema,
  type Settings,
  type UpdateSettingsRequest,
  type UpdateSettingsResponse,
} from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import { enumText } from '../../services/platform/values/enum-text.ts';
import type { ActionContext } from '../actions/context.ts';
import { SHOPPER_PATH } from '../shopper/router.ts';
import { changesOf } from '../tenancy/field-change.ts';
import { portalError } from './errors.ts';

const RESTOCK = enumText(RestockModeSchema);
const GIFT_CARDS = enumText(GiftCardModeSchema);
const LABELS = enumText(LabelProviderSchema);

type Fields = Omit<UpdateSettingsRequest, '$typeName'>;

/**
 * What a merchant may change. The address of the shop's page for shoppers follows from its handle.
 *
 * @throws ConnectError INVALID_ARGUMENT for the currency, which never changes, and for `sandbox`, which the operator
 *   switches.
 */
export function ofMerchant(request: Fields, publicUrl = ''): Fields {
  const { currency = '', sandbox } = request.settings ?? {};
  if (currency === '' && sandbox === undefined) {
    for (const { shopperPage } of [request.settings, request.expected].filter(
      (one) => one != null,
    )) {
      if (!shopperPage) continue;
      const { handle } = shopperPage;
      shopperPage.url = handle === '' ? '' : `${publicUrl}${SHOPPER_PATH}/${handle}`;
    }
    return { ...request, validateOnly: false };
  }
  const field = currency === '' ? 'settings.sandbox' : 'settings.currency';
  throw portalError(Code.InvalidArgument, `${field} is set by the operator of the service.`, field);
}

/** Notes the changed fields for the audit log. */
export function noteSettings(
  { noteChanges }: ActionContext,
  { previous: from, settings: to }: UpdateSettingsResponse,
): void {
  const both = (read: (one: Settings) => string) => [from && read(from), to && read(to)] as const;
  noteChanges?.(
    changesOf({
      restock_mode: both(({ restockMode }) => RESTOCK.toText(restockMode)),
      gift_card_mode: both(({ giftCardMode }) => GIFT_CARDS.toText(giftCardMode)),
      label_provider: both(({ labelProvider }) => LABELS.toText(labelProvider)),
      expiry_days: both(({ expiryDays }) => String(expiryDays)),
      processing_retry_minutes: both(({ processingRetryMinutes: minutes }) => String(minutes)),
      page_handle: both(({ shopperPage }) => shopperPage?.handle ?? ''),
      page_accent: both(({ shopperPage }) => shopperPage?.accent ?? ''),
      page_support_email: both(({ shopperPage }) => shopperPage?.supportEmail ?? ''),
      parcel: both(({ parcel }) =>
        parcel ? `${parcel.lengthCm} × ${parcel.widthCm} × ${parcel.heightCm} cm` : '',
      ),
    }),
  );
}
