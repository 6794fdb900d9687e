import { describe, expect, test } from '@jest/globals';
import { contrast, shopStyle } from './look.ts';
import de from './texts/de.json' with { type: 'json' };
import en from './texts/en.json' with { type: 'json' };
import es from './texts/es.json' with { type: 'json' };
import fr from './texts/fr.json' with { type: 'json' };
import { LANGUAGES, languageOf, wordsIn } from './words.ts';

describe('texts', () => {
  const holes = (text: string) => [...text.matchAll(/\{\w+\}/g)].map(String).toSorted();

  test.each(Object.entries({ de, es, fr }))('in %s are complete', (_, texts) => {
    expect(Object.keys(texts)).toEqual(Object.keys(en));
    for (const [name, text] of Object.entries<string>(texts)) {
      expect([name, text]).toEqual([name, expect.stringMatching(/\S/)]);
      const english = Object.entries<string>(en).find(([key]) => key === name)?.[1] ?? '';
      expect([name, holes(text)]).toEqual([name, holes(english)]);
    }
  });

  test('fill their holes', () => {
    expect(wordsIn('de').text('orderName', { name: '#1' })).toBe('Bestellung #1');
    expect(wordsIn('fr').count('returnable', 2)).toBe('2 peuvent être retournés');
    expect(wordsIn('en').count('returnable', 1)).toBe('1 of them can be returned');
  });

  test('have amounts with the digits of their currency', () => {
    expect(wordsIn('en').money('1234.50', 'GBP')).toBe('£1,234.50');
    expect(wordsIn('de').money('1234', 'JPY')).toMatch(/^1\.234\s¥$/);
    expect(wordsIn('es').money('0.125', 'KWD')).toMatch(/^0,125\sKWD$/);
  });

  test('have days and times', () => {
    const at = new Date('2026-12-01T09:08:07Z');
    expect(wordsIn('de').day(at)).toBe('1. Dezember 2026');
    expect(wordsIn('en').time(at)).toMatch(/^Dec 1, 2026, 09:08:07\sAM UTC$/);
  });
});

describe('the language of a page', () => {
  test.each([
    [undefined, undefined, 'en'],
    [undefined, 'de-AT,de;q=0.9,en;q=0.8', 'de'],
    [undefined, 'it, fr;q=0.3, es;q=0.7', 'es'],
    [undefined, 'de;q=0, en', 'en'],
    [undefined, 'nonsense;;;q=x,,', 'en'],
    ['fr', 'de', 'fr'],
    ['it', 'de', 'de'],
  ] as const)('asked %s and Accept-Language %s is %s', (asked, header, language) => {
    expect(languageOf(asked, header)).toBe(language);
  });

  test('is one of four', () => {
    expect(LANGUAGES).toHaveLength(4);
  });
});

describe('the colour of a shop', () => {
  test.each(['#ffff00', '#000000', '#ffffff', '#0b57c9', '#ff0000', '#808080'])(
    '%s is readable on both grounds, and texts on it, too',
    (accent) => {
      const [, light = '', dark = ''] =
        /--accent: light-dark\((#\w{6}), (#\w{6})\); --on-accent/.exec(shopStyle(accent)) ?? [];
      const [, onLight = '', onDark = ''] =
        /--on-accent: light-dark\((#\w{6}), (#\w{6})\);\n}\n$/.exec(shopStyle(accent)) ?? [];
      expect(contrast(light, '#ffffff')).toBeGreaterThanOrEqual(4.5);
      expect(contrast(dark, '#1b1c1f')).toBeGreaterThanOrEqual(4.5);
      expect(contrast(onLight, light)).toBeGreaterThanOrEqual(4.5);
      expect(contrast(onDark, dark)).toBeGreaterThanOrEqual(4.5);
    },
  );

  test('is that of this service without one', () => {
    expect(shopStyle('')).not.toMatch(/\n}\n:root \{\n {2}--accent/);
  });
});
