/** A field that a call changed, for people to read. Its values are never secret. */
export interface FieldChange {
  /** The name of the field in the API, such as `url`. */
  readonly field: string;
  /** The former value; absent when there was none, or when it is not shown. */
  readonly from?: string;
  /** The new value; absent when there is none, or when it is not shown. */
  readonly to?: string;
}

/** The two values of a field. */
export type BeforeAndAfter = readonly [from: string | undefined, to: string | undefined];

/** Maximum length of a value. Longer ones are cut. Characters. */
const VALUE_MAX = 300;

/** Returns the fields whose two values differ. An absent value equals an empty text. */
export function changesOf(fields: Readonly<Record<string, BeforeAndAfter>>): FieldChange[] {
  return Object.entries(fields)
    .filter(([, [from = '', to = '']]) => from !== to)
    .map(([field, [from = '', to = '']]) => ({
      field,
      ...(from !== '' && { from: shortened(from) }),
      ...(to !== '' && { to: shortened(to) }),
    }));
}

/** Cuts a long value. Replaces control characters and lone surrogates, because PostgreSQL cannot store them in JSON. */
function shortened(value: string): string {
  const characters = [...value.replace(/[\p{Cc}\p{Cs}]/gu, '\u{fffd}')];
  return characters.length <= VALUE_MAX
    ? characters.join('')
    : `${characters.slice(0, VALUE_MAX).join('')}…`;
}

/** Matches a part of a path that is long and has digits, because tokens look like that. */
const TOKEN = /^(?=.*\d)[\w~.-]{16,}$/;

/**
 * Removes from the address of a webhook what may be a secret: user and password, the values of the query, and parts of
 * the path that look like tokens. The first four characters of such a part stay, so that people see a change.
 */
export function addressWithoutSecrets(url: string): string {
  if (!URL.canParse(url)) return '';
  const { protocol, host, pathname, searchParams } = new URL(url);
  const path = pathname
    .split('/')
    .map((part) => (TOKEN.test(part) ? `${part.slice(0, 4)}…` : part))
    .join('/');
  const names = [...new Set(searchParams.keys())].map((name) => `${name}=…`);
  return `${protocol}//${host}${path}${names.length > 0 ? `?${names.join('&')}` : ''}`;
}
