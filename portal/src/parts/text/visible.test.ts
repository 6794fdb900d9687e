import { expect, test } from '@jest/globals';
import { visible } from './visible.ts';

test('what was copied from a mail or a spreadsheet has no invisible characters', () => {
  expect(visible('\u{202d}1Z999\u{202c}\u{a0}')).toBe('1Z999');
  expect(visible('\u{feff}https://example.com/hook\u{200b}')).toBe('https://example.com/hook');
});

test('characters that belong to a name stay', () => {
  for (const name of ['علی\u{200c}رضا', '👩\u{200d}🚀', 'Renée', '#1001'])
    expect(visible(name)).toBe(name);
});
