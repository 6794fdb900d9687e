import { describe, expect, test } from '@jest/globals';
import { betweenMarks } from './write-docs.ts';

const MARKS = ['<!-- begin -->', '<!-- end -->'] as const;

describe('the text between the marks of a page', () => {
  test('is replaced, and the text around it stays', () => {
    const page = 'before\n<!-- begin -->\n\nold\n\n<!-- end -->\nafter\n';
    expect(betweenMarks(page, MARKS, 'new')).toBe(
      'before\n<!-- begin -->\n\nnew\n\n<!-- end -->\nafter\n',
    );
  });

  test('needs both marks', () => {
    expect(() => betweenMarks('<!-- begin --> only', MARKS, '')).toThrow('lost its marks');
  });
});
