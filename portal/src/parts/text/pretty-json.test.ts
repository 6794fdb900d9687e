import { expect, test } from '@jest/globals';
import { prettyJson } from './pretty-json.ts';

test('JSON gets line breaks as JSON.stringify makes them', () => {
  const value = { a: [], b: {}, c: [1, { d: 'x, y: {"z"}\\' }, null, true], 'e"f': -2.5, g: '' };
  const pretty = JSON.stringify(value, undefined, 2);
  expect(prettyJson(JSON.stringify(value))).toBe(pretty);
  expect(prettyJson(pretty)).toBe(pretty);
});

test('numbers and texts stay as they were sent', () => {
  expect(prettyJson('{"a":10.00,"b":9007199254740993,"c":1E2,"d":"\\u00e9\\/"}')).toBe(
    '{\n  "a": 10.00,\n  "b": 9007199254740993,\n  "c": 1E2,\n  "d": "\\u00e9\\/"\n}',
  );
});

test('what is no JSON is unchanged', () => {
  expect(prettyJson('{"a": ')).toBe('{"a": ');
});
