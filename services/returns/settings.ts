import { create } from '@bufbuild/protobuf';
import type pg from 'pg';
import { z } from 'zod';
import type { UpdateSettingsRequest } from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import {
  GiftCardMode,
  LabelProvider,
  RestockMode,
  type Settings,
  SettingsSchema,
} from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import { decimalsOf } from '../platform/currencies.ts';
import { invalidField, stateForbids } from '../platform/errors.ts';
import { parseInput } from '../platform/input.ts';
import type { Queryable } from '../platform/postgres.ts';
import { param, raw, sql, unnamed } from '../platform/sql.ts';
import { requireKnownOutcomes } from './commerce/known-outcomes.ts';
import { shopNotConfigured } from './errors.ts';
import { OPEN_JOB } from './processing/jobs.ts';
import { giftCardModeText, labelProviderText, restockModeText } from './store/texts.ts';

interface SettingsRow {
  readonly currency: string;
  readonly restock_mode: string;
  readonly gift_card_mode: string;
  readonly label_provider: string;
  readonly expiry_days: number;
  readonly processing_retry_minutes: number;
  readonly parcel_length_cm: number;
  readonly parcel_width_cm: number;
  readonly parcel_height_cm: number;
  readonly sandbox: boolean;
}

const COLUMNS = `currency, restock_mode, gift_card_mode, label_provider, expiry_days,
  processing_retry_minutes, parcel_length_cm, parcel_width_cm, parcel_height_cm, sandbox`;

/**
 * Reads the returns settings of a shop.
 *
 * @throws DomainError SHOP_NOT_CONFIGURED when the shop has no settings.
 */
export async function loadSettings(db: Queryable, shopId: bigint): Promise<Settings> {
  const { rows } = await db.query<SettingsRow>({
    name: 'load-settings',
    text: `select ${COLUMNS} from settings where shop_id = $1`,
    values: [shopId],
  });
  if (!rows[0]) throw shopNotConfigured();
  return toSettings(rows[0]);
}

function toSettings(row: SettingsRow): Settings {
  return create(SettingsSchema, {
    currency: row.currency,
    restockMode: restockModeText.fromText(row.restock_mode),
    giftCardMode: giftCardModeText.fromText(row.gift_card_mode),
    labelProvider: labelProviderText.fromText(row.label_provider),
    expiryDays: row.expiry_days,
    processingRetryMinutes: row.processing_retry_minutes,
    parcel: {
      lengthCm: row.parcel_length_cm,
      widthCm: row.parcel_width_cm,
      heightCm: row.parcel_height_cm,
    },
    sandbox: row.sandbox,
  });
}

/** A number from 1 to `max`, as in the table; 0 means that the request has none. */
const bounded = (max: number) =>
  z
    .int()
    .refine((value) => value >= 0 && value <= max, `must be from 1 to ${max}`)
    .transform((value) => value || null);

const centimetres = bounded(1_000);

const settingsInput = z.object({
  settings: z.object(
    {
      currency: z.string().refine((text) => text === '' || decimalsOf(text) !== undefined, {
        error: 'must be an ISO 4217 currency',
      }),
      restockMode: z.enum(RestockMode, 'is unknown'),
      giftCardMode: z.enum(GiftCardMode, 'is unknown'),
      labelProvider: z.enum(LabelProvider, 'is unknown'),
      expiryDays: bounded(365),
      processingRetryMinutes: bounded(1_440),
      parcel: z
        .object({ lengthCm: centimetres, widthCm: centimetres, heightCm: centimetres })
        .optional(),
      sandbox: z.boolean().optional(),
    },
    'is required',
  ),
});

/**
 * Writes the returns settings of a shop. Absent fields keep their values. In the first call they get their defaults,
 * and the currency is required. With `validateOnly` it only checks whether the settings may be written now.
 *
 * @throws DomainError STATE_FORBIDS for a change of `sandbox` while an effect has an unknown outcome or a return is
 *   being processed; SHOP_NOT_CONFIGURED for a first call without a currency; INVALID_ARGUMENT for another currency
 *   than the shop has, because stored amounts are in the shop's currency.
 */
export async function updateSettings(
  pool: pg.Pool,
  request: UpdateSettingsRequest,
): Promise<Settings> {
  const { settings } = parseInput(settingsInput, request);
  if (request.validateOnly) return checkSettings(pool, request.shopId, settings);
  if (settings.currency !== '') {
    await pool.query(
      'insert into settings (shop_id, currency) values ($1, $2) on conflict (shop_id) do nothing',
      [request.shopId, settings.currency],
    );
  }
  await requireSwitchable(pool, request.shopId, settings.sandbox);
  const { parcel } = settings;
  const currency = param(settings.currency);
  const { rows } = await pool.query<SettingsRow>(
    unnamed(sql`
     update settings
        set restock_mode = coalesce(${textOrNull(settings.restockMode, restockModeText)}, restock_mode),
            gift_card_mode = coalesce(${textOrNull(settings.giftCardMode, giftCardModeText)}, gift_card_mode),
            label_provider = coalesce(${textOrNull(settings.labelProvider, labelProviderText)}, label_provider),
            expiry_days = coalesce(${settings.expiryDays}, expiry_days),
            processing_retry_minutes = coalesce(${settings.processingRetryMinutes}, processing_retry_minutes),
            parcel_length_cm = coalesce(${parcel?.lengthCm}, parcel_length_cm),
            parcel_width_cm = coalesce(${parcel?.widthCm}, parcel_width_cm),
            parcel_height_cm = coalesce(${parcel?.heightCm}, parcel_height_cm),
            sandbox = coalesce(${settings.sandbox}, sandbox),
            updated_at = now()
      where shop_id = ${request.shopId} and (${currency} = '' or currency = ${currency})
     returning ${raw(COLUMNS)}`),
  );
  if (rows[0]) return toSettings(rows[0]);
  if (settings.currency === '') throw shopNotConfigured();
  throw invalidField('settings.currency', 'cannot change');
}

/** Makes those checks of {@link updateSettings} that need the shop. Returns its current settings. */
async function checkSettings(
  pool: pg.Pool,
  shopId: bigint,
  wanted: { readonly currency: string; readonly sandbox?: boolean | undefined },
): Promise<Settings> {
  const present = await loadSettings(pool, shopId);
  if (wanted.currency !== '' && wanted.currency !== present.currency) {
    throw invalidField('settings.currency', 'cannot change');
  }
  await requireSwitchable(pool, shopId, wanted.sandbox);
  return present;
}

/**
 * Rejects a change of `sandbox` while a return is being processed or an effect has an unknown outcome. A sandbox shop
 * and a live shop have different providers, and neither provider finds an effect of the other. This check may miss a
 * return that is queued at the same moment.
 *
 * @throws DomainError STATE_FORBIDS
 */
async function requireSwitchable(
  pool: pg.Pool,
  shopId: bigint,
  sandbox: boolean | undefined,
): Promise<void> {
  if (sandbox === undefined) return;
  const { rows } = await pool.query<{ sandbox: boolean; jobs: number }>(
    `select s.sandbox, (select count(*)::int from processing_jobs j
                         where j.shop_id = s.shop_id and j.${OPEN_JOB}) as jobs
       from settings s where s.shop_id = $1`,
    [shopId],
  );
  const [present] = rows;
  if (!present || present.sandbox === sandbox) return;
  await requireKnownOutcomes(pool, shopId);
  if (present.jobs > 0) {
    throw stateForbids(
      `${present.jobs} returns are being processed: repeat this when they have ended`,
    );
  }
}

function textOrNull<T extends number>(
  value: T,
  texts: { toText(value: T): string },
): string | null {
  return value === 0 ? null : texts.toText(value);
}
