import de from './texts/de.json' with { type: 'json' };
import en from './texts/en.json' with { type: 'json' };
import es from './texts/es.json' with { type: 'json' };
import fr from './texts/fr.json' with { type: 'json' };

// The texts of the pages in each language are in `texts`, for translators.

export const LANGUAGES = ['en', 'de', 'fr', 'es'] as const;
export type Language = (typeof LANGUAGES)[number];

type TextName = keyof typeof en;
/** The names of texts with a number: `returnable` is `returnable_one` and `returnable_other`. */
type CountName = { [N in TextName]: N extends `${infer Base}_one` ? Base : never }[TextName];

const TEXTS: Readonly<Record<Language, Readonly<Record<TextName, string>>>> = { en, de, fr, es };

/** Writes texts, amounts and times in one language. */
export interface Words {
  readonly language: Language;
  /** The text with this name; each `{name}` in it becomes the value with that name. */
  text(name: TextName, values?: Readonly<Record<string, string>>): string;
  /** The text with this name for a number of things. */
  count(name: CountName, n: number): string;
  /** @param amount decimal text. @param currency ISO 4217. */
  money(amount: string, currency: string): string;
  day(at: Date): string;
  /** A day and a time of day, with its time zone. */
  time(at: Date): string;
}

export function wordsIn(language: Language): Words {
  const text: Words['text'] = (name, values = {}) =>
    TEXTS[language][name].replace(/\{(\w+)\}/g, (hole, key: string) => values[key] ?? hole);
  return {
    language,
    text,
    count(name, n) {
      const form = new Intl.PluralRules(language).select(n) === 'one' ? 'one' : 'other';
      return text(`${name}_${form}`, { n: new Intl.NumberFormat(language).format(n) });
    },
    money(amount, currency) {
      const digits = amount.split('.')[1]?.length ?? 0;
      return new Intl.NumberFormat(language, {
        ...{ style: 'currency', currency },
        ...{ minimumFractionDigits: digits, maximumFractionDigits: digits },
      }).format(amount as Intl.StringNumericLiteral);
    },
    day: (at) =>
      new Intl.DateTimeFormat(language, { dateStyle: 'long', timeZone: 'UTC' }).format(at),
    time: (at) =>
      new Intl.DateTimeFormat(language, {
        ...{ year: 'numeric', month: 'short', day: 'numeric' },
        ...{ hour: '2-digit', minute: '2-digit', second: '2-digit' },
        ...{ timeZone: 'UTC', timeZoneName: 'short' },
      }).format(at),
  };
}

/** Whether the table of texts has a text with this name, such as `why_refunded`. */
export function isTextName(name: string): name is TextName {
  return Object.hasOwn(en, name);
}

/**
 * The language of a page: the one that was asked for, else the first of `Accept-Language` that there is, else English.
 *
 * @param acceptLanguage the header (RFC 9110, 12.5.4).
 */
export function languageOf(asked: string | undefined, acceptLanguage = ''): Language {
  const known = LANGUAGES.find((one) => one === asked);
  if (known) return known;
  const ranges = acceptLanguage
    .slice(0, MAX_HEADER)
    .split(',')
    .flatMap((range) => {
      const [tag = '', ...parameters] = range.trim().toLowerCase().split(';');
      const weight = parameters.map((one) => /^\s*q=([\d.]+)\s*$/.exec(one)?.[1]).find(Boolean);
      const q = Number(weight ?? 1);
      const language = LANGUAGES.find((one) => tag === one || tag.startsWith(`${one}-`));
      return language && q > 0 ? [{ language, q }] : [];
    });
  // A stable sort: of equal weights, the first.
  return ranges.toSorted((a, b) => b.q - a.q)[0]?.language ?? 'en';
}

const MAX_HEADER = 500;
