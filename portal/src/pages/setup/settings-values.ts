import type { MessageInitShape } from '@bufbuild/protobuf';
import type { Settings, SettingsSchema } from '../../../../proto/gen/rms/returns/v1/returns_pb.ts';

/** The settings that a merchant changes, as texts of a form. */
export interface Values {
  readonly restockMode: string;
  readonly giftCardMode: string;
  readonly labelProvider: string;
  readonly expiryDays: string;
  readonly processingRetryMinutes: string;
  readonly lengthCm: string;
  readonly widthCm: string;
  readonly heightCm: string;
  readonly handle: string;
  readonly accent: string;
  readonly supportEmail: string;
}

export type Name = keyof Values;

const PARCEL = ['lengthCm', 'widthCm', 'heightCm'] as const satisfies readonly Name[];
const OTHERS = [
  'restockMode',
  'giftCardMode',
  'labelProvider',
  'expiryDays',
  'processingRetryMinutes',
] as const satisfies readonly Name[];

/** The fields of the page for shoppers, which a request has together. */
const PAGE = ['handle', 'accent', 'supportEmail'] as const satisfies readonly Name[];

export function valuesOf(settings: Settings): Values {
  const { parcel, shopperPage } = settings;
  return {
    restockMode: String(settings.restockMode),
    giftCardMode: String(settings.giftCardMode),
    labelProvider: String(settings.labelProvider),
    expiryDays: String(settings.expiryDays),
    processingRetryMinutes: String(settings.processingRetryMinutes),
    lengthCm: String(parcel?.lengthCm ?? ''),
    widthCm: String(parcel?.widthCm ?? ''),
    heightCm: String(parcel?.heightCm ?? ''),
    handle: shopperPage?.handle ?? '',
    accent: shopperPage?.accent ?? '',
    supportEmail: shopperPage?.supportEmail ?? '',
  };
}

/** An edited value, and the stored one that its user saw. */
export interface Edit {
  readonly seen: string;
  readonly value: string;
}

export type Edits = Readonly<Partial<Record<Name, Edit>>>;

/** Adds an edit. A value that is as stored is none. */
export function edited(
  edits: Edits,
  name: Name,
  o: { readonly value: string; readonly stored: string },
): Edits {
  const { [name]: former, ...others } = edits;
  const seen = former?.seen ?? o.stored;
  return o.value === seen ? others : { ...others, [name]: { seen, value: o.value } };
}

/** The edits whose values are not stored. */
export function unsaved(edits: Edits, stored: Values): Edits {
  const open = Object.entries(edits).filter(([name, { value }]) => value !== stored[name as Name]);
  return Object.fromEntries(open);
}

/** The edited fields whose stored value is another one than the user saw. */
export function overtaken(edits: Edits, stored: Values): Name[] {
  return (Object.keys(edits) as Name[]).filter((name) => {
    const edit = edits[name];
    return edit && edit.seen !== stored[name];
  });
}

/** Only what was edited, as a request has it. @param stored for the parts that a request has as a whole. */
export function settingsOf(
  edits: Edits,
  of: 'seen' | 'value',
  stored: Values,
): MessageInitShape<typeof SettingsSchema> {
  const numbers = <N extends Name>(names: readonly N[]) =>
    Object.fromEntries(
      names.flatMap((name) => {
        const edit = edits[name];
        return edit ? [[name, Number(edit[of])]] : [];
      }),
    );
  const parcel = numbers(PARCEL);
  const shopperPage = Object.fromEntries(
    PAGE.map((name) => [name, edits[name]?.[of] ?? stored[name]]),
  );
  return {
    ...numbers(OTHERS),
    ...(Object.keys(parcel).length > 0 && { parcel }),
    ...(PAGE.some((name) => edits[name]) && { shopperPage }),
  };
}
