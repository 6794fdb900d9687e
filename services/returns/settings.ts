import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { Code } from '@connectrpc/connect';
import type pg from 'pg';
import { z } from 'zod';
import { ErrorReason } from '../../proto/gen/rms/common/v1/error_pb.ts';
import type {
  FindShopperPageRequest,
  FindShopperPageResponseSchema,
  UpdateSettingsRequest,
} from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import {
  GiftCardMode,
  LabelProvider,
  RestockMode,
  type Settings,
  SettingsSchema,
} from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import { requireKnownOutcomes } from '../commerce/unknown-outcomes.ts';
import { EMAIL_MAX } from '../contract/limits.ts';
import { onlyRow } from '../platform/postgres/only-row.ts';
import {
  inTransaction,
  type Queryable,
  violatedConstraint,
} from '../platform/postgres/postgres.ts';
import { raw, sql, unnamed } from '../platform/postgres/sql.ts';
import { decimalsOf } from '../platform/values/currencies.ts';
import { DomainError, invalidField, stateForbids } from '../platform/values/errors.ts';
import { parseInput, text } from '../platform/values/input.ts';
import { EMAIL_FORM } from '../platform/values/text.ts';
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
  readonly page_handle: string;
  readonly page_url: string;
  readonly page_accent: string;
  readonly page_support_email: string;
}

const COLUMNS = `currency, restock_mode, gift_card_mode, label_provider, expiry_days,
  processing_retry_minutes, parcel_length_cm, parcel_width_cm, parcel_height_cm, sandbox,
  page_handle, page_url, page_accent, page_support_email`;

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
    // Also while it is off: a request states the whole page that its caller has read.
    ...(Object.values(pageOf(row)).some((value) => value !== '') && { shopperPage: pageOf(row) }),
  });
}

function pageOf(row: SettingsRow) {
  return {
    handle: row.page_handle,
    url: row.page_url,
    accent: row.page_accent,
    supportEmail: row.page_support_email,
  };
}

/**
 * Finds the shop whose page for shoppers has a handle.
 *
 * @throws DomainError NOT_FOUND.
 */
export async function findShopperPage(
  db: Queryable,
  { handle }: Pick<FindShopperPageRequest, 'handle'>,
): Promise<MessageInitShape<typeof FindShopperPageResponseSchema>> {
  const { rows } = await db.query<SettingsRow & { readonly shop_id: bigint }>({
    name: 'find-shopper-page',
    text: `select shop_id, ${COLUMNS} from settings where page_handle = $1 and page_handle <> ''`,
    // PostgreSQL rejects a text with NUL.
    values: [handle.replaceAll('\0', '')],
  });
  const [row] = rows;
  if (row) return { shopId: row.shop_id, page: pageOf(row) };
  throw new DomainError(Code.NotFound, ErrorReason.UNSPECIFIED, 'no shop has this handle');
}

/** A number from 1 to `max`, as in the table; 0 means that the request has none. */
const bounded = (max: number) =>
  z
    .int()
    .refine((value) => value >= 0 && value <= max, `must be from 1 to ${max}`)
    .transform((value) => value || null);

const centimetres = bounded(1_000);

const PAGE_URL_MAX = 200;

/** The page for shoppers, which a request replaces as a whole. */
const page = z
  .object({
    handle: z.string().regex(/^([a-z0-9-]{3,40})?$/, 'must be 3 to 40 of a to z, 0 to 9 and -'),
    url: z
      .string()
      .regex(/^(https?:\/\/\S+)?$/, 'must be a web address')
      .max(PAGE_URL_MAX, `must have at most ${PAGE_URL_MAX} characters`),
    accent: z
      .string()
      .toLowerCase()
      .regex(/^(#[0-9a-f]{6})?$/, 'must be # and six hexadecimal digits'),
    supportEmail: text(EMAIL_MAX).refine(
      (address) => address === '' || EMAIL_FORM.test(address),
      'must be an e-mail address',
    ),
  })
  .refine(({ handle, url }) => handle === '' || url !== '', {
    error: 'is required with a handle',
    path: ['url'],
  });

/** What a request says of settings. */
const parts = z.object(
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
    shopperPage: page.optional(),
  },
  'is required',
);

const settingsInput = z.object({ settings: parts, expected: parts.optional() });

type Changes = { readonly [K in Exclude<keyof SettingsRow, 'currency'>]: SettingsRow[K] | null };

/** The values of a request as they are stored; null for absent fields. */
function changesOf({ parcel, shopperPage, ...given }: z.output<typeof parts>): Changes {
  return {
    restock_mode: textOrNull(given.restockMode, restockModeText),
    gift_card_mode: textOrNull(given.giftCardMode, giftCardModeText),
    label_provider: textOrNull(given.labelProvider, labelProviderText),
    expiry_days: given.expiryDays,
    processing_retry_minutes: given.processingRetryMinutes,
    parcel_length_cm: parcel?.lengthCm ?? null,
    parcel_width_cm: parcel?.widthCm ?? null,
    parcel_height_cm: parcel?.heightCm ?? null,
    sandbox: given.sandbox ?? null,
    page_handle: shopperPage?.handle ?? null,
    page_url: shopperPage?.url ?? null,
    page_accent: shopperPage?.accent ?? null,
    page_support_email: shopperPage?.supportEmail ?? null,
  };
}

/**
 * Writes the returns settings of a shop. Absent fields keep their values. In the first call they get their defaults,
 * and the currency is required. With `validateOnly` it only checks whether the settings may be written now. Returns the
 * settings before and after the call.
 *
 * @throws DomainError STATE_FORBIDS for a change of `sandbox` while an effect has an unknown outcome or a return is
 *   being processed; SHOP_NOT_CONFIGURED for a first call without a currency; INVALID_ARGUMENT for another currency
 *   than the shop has, because stored amounts are in the shop's currency; REVISION_CONFLICT when a value of `expected` is
 *   another one now.
 */
export function updateSettings(
  pool: pg.Pool,
  request: UpdateSettingsRequest,
): Promise<{ readonly settings: Settings; readonly previous: Settings }> {
  const { settings, expected } = parseInput(settingsInput, request);
  const { shopId } = request;
  return inTransaction(pool, async (tx) => {
    if (settings.currency !== '' && !request.validateOnly) {
      await tx.query(
        'insert into settings (shop_id, currency) values ($1, $2) on conflict (shop_id) do nothing',
        [shopId, settings.currency],
      );
    }
    const { rows } = await tx.query<SettingsRow>(
      `select ${COLUMNS} from settings where shop_id = $1 for update`,
      [shopId],
    );
    const [row] = rows;
    if (!row) throw shopNotConfigured();
    const previous = toSettings(row);
    if (settings.currency !== '' && settings.currency !== row.currency) {
      throw invalidField('settings.currency', 'cannot change');
    }
    // The address follows from the handle. It is another one after a move of the gateway.
    if (expected) requireExpected(row, { ...changesOf(expected), page_url: null });
    await requireSwitchable(tx, shopId, settings.sandbox);
    if (request.validateOnly) return { settings: previous, previous };
    return { settings: await write(tx, shopId, changesOf(settings)), previous };
  });
}

/** @throws DomainError REVISION_CONFLICT when somebody has changed one of the values since the caller read it. */
function requireExpected(row: SettingsRow, expected: Changes): void {
  const names = Object.keys(expected) as (keyof Changes)[];
  const changed = names.find((name) => expected[name] !== null && expected[name] !== row[name]);
  if (changed === undefined) return;
  throw new DomainError(
    Code.Aborted,
    ErrorReason.REVISION_CONFLICT,
    `somebody has set ${changed.replaceAll('_', ' ')} to ${row[changed]} in the meantime`,
    { field: `expected.${changed}` },
  );
}

async function write(tx: Queryable, shopId: bigint, changes: Changes): Promise<Settings> {
  const result = await tx
    .query<SettingsRow>(
      unnamed(sql`
     update settings
        set restock_mode = coalesce(${changes.restock_mode}, restock_mode),
            gift_card_mode = coalesce(${changes.gift_card_mode}, gift_card_mode),
            label_provider = coalesce(${changes.label_provider}, label_provider),
            expiry_days = coalesce(${changes.expiry_days}, expiry_days),
            processing_retry_minutes = coalesce(${changes.processing_retry_minutes}, processing_retry_minutes),
            parcel_length_cm = coalesce(${changes.parcel_length_cm}, parcel_length_cm),
            parcel_width_cm = coalesce(${changes.parcel_width_cm}, parcel_width_cm),
            parcel_height_cm = coalesce(${changes.parcel_height_cm}, parcel_height_cm),
            sandbox = coalesce(${changes.sandbox}, sandbox),
            page_handle = coalesce(${changes.page_handle}, page_handle),
            page_url = coalesce(${changes.page_url}, page_url),
            page_accent = coalesce(${changes.page_accent}, page_accent),
            page_support_email = coalesce(${changes.page_support_email}, page_support_email),
            updated_at = now()
      where shop_id = ${shopId}
     returning ${raw(COLUMNS)}`),
    )
    .catch((error: unknown) => {
      if (violatedConstraint(error) !== 'settings_page_handle_once') throw error;
      throw invalidField('settings.shopper_page.handle', 'is taken: another shop has it');
    });
  return toSettings(onlyRow(result));
}

/**
 * Rejects a change of `sandbox` while a return is being processed or an effect has an unknown outcome. A sandbox shop
 * and a live shop have different providers, and neither provider finds an effect of the other. This check may miss a
 * return that is queued at the same moment.
 *
 * @throws DomainError STATE_FORBIDS
 */
async function requireSwitchable(
  db: Queryable,
  shopId: bigint,
  sandbox: boolean | undefined,
): Promise<void> {
  if (sandbox === undefined) return;
  const { rows } = await db.query<{ sandbox: boolean; jobs: number }>(
    `select s.sandbox, (select count(*)::int from processing_jobs j
                         where j.shop_id = s.shop_id and j.${OPEN_JOB}) as jobs
       from settings s where s.shop_id = $1`,
    [shopId],
  );
  const [present] = rows;
  if (!present || present.sandbox === sandbox) return;
  await requireKnownOutcomes(db, shopId);
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
