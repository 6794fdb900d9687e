import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { type DiffLine, diffLines, withoutEqualParts } from './diff.ts';

const textOf = (lines: readonly DiffLine[], without: DiffLine['kind']) =>
  lines
    .filter(({ kind }) => kind !== without)
    .map(({ text }) => text)
    .join('\n');

describe('the comparison of two payloads', () => {
  test('shows the lines that differ, removed ones first', () => {
    expect(diffLines('{\n  "a": 1\n}', '{\n  "a": 2\n}')).toEqual([
      { kind: 'same', text: '{' },
      { kind: 'removed', text: '  "a": 1' },
      { kind: 'added', text: '  "a": 2' },
      { kind: 'same', text: '}' },
    ]);
  });

  test('contains both texts, whatever they are', () => {
    const text = fc.array(fc.constantFrom('a', 'b', 'c', '')).map((lines) => lines.join('\n'));
    fc.assert(
      fc.property(text, text, (before, after) => {
        const lines = diffLines(before, after);
        expect(textOf(lines, 'added')).toBe(before);
        expect(textOf(lines, 'removed')).toBe(after);
      }),
    );
  });

  test('of equal texts has no difference', () => {
    expect(diffLines('a\nb', 'a\nb').every(({ kind }) => kind === 'same')).toBe(true);
  });

  test('leaves out equal lines far from a difference, and says how many', () => {
    const before = ['x', ...Array.from({ length: 10 }, (_, line) => String(line))].join('\n');
    const shown = withoutEqualParts(diffLines(before, before.replace('x', 'y')));
    expect(shown).toHaveLength(6);
    expect(shown.at(-1)).toEqual({ gap: 7 });
  });
});
