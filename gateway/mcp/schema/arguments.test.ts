import { describe, expect, test } from '@jest/globals';
import { z } from 'zod';
import { SAMPLE_OBJECTS } from '../../../test/kit/gateway/tool-calls.ts';
import { TOOLS } from '../tools.ts';
import { parseArguments } from './arguments.ts';

const schema = z.strictObject({
  id: z.int({ error: 'is required' }),
  note: z.string().optional(),
  limit: z.int().default(20),
  items: z.array(z.strictObject({ id: z.int(), note: z.string().optional() })).optional(),
  details: z.record(z.string(), z.union([z.string(), z.null()])).optional(),
});

describe('arguments of a tool', () => {
  test('null counts as absent for optional fields, at every depth', () => {
    const args = { id: 1, note: null, limit: null, items: [{ id: 2, note: null }] };
    const value = { id: 1, limit: 20, items: [{ id: 2 }] };
    expect(parseArguments(schema, args)).toEqual({ ok: true, value });
  });

  test('null stays where it is a valid value', () => {
    const args = { id: 1, details: { gift: null } };
    expect(parseArguments(schema, args)).toMatchObject({ ok: true, value: args });
  });

  test.each<object>([
    { id: null },
    { id: 1, colour: null },
    { id: 1, items: [null] },
    { id: 1, constructor: null },
    { id: '' },
    { id: 'null' },
    { id: 'undefined' },
  ])('null is rejected for required fields: %j', (args) => {
    expect(parseArguments(schema, args).ok).toBe(false);
  });
});

/** The fields of a good call whose schema is not a text, as JSON text. */
const asJsonText = (args: object): object =>
  Object.fromEntries(
    Object.entries(args).map(([name, value]) => [
      name,
      typeof value === 'string' ? value : JSON.stringify(value),
    ]),
  );

describe('arguments that can mean only one thing', () => {
  const words = z.strictObject({
    ...schema.shape,
    states: z.array(z.enum(['open', 'closed'])).optional(),
    tags: z.array(z.string()).optional(),
    isNew: z.boolean().optional(),
    at: z.string().min(3).optional(),
    custom: z.custom<object>((value) => typeof value === 'object').optional(),
  });
  const parsed = (args: unknown) => {
    const result = parseArguments(words, args);
    return result.ok ? result.value : result.problems;
  };

  test.each<[what: string, args: unknown, value: object]>([
    ['a number as text', { id: '12' }, { id: 12 }],
    ['a whole number with decimals as text', { id: '12.0', limit: '1e1' }, { id: 12, limit: 10 }],
    ['a boolean as text', { id: 1, isNew: 'false' }, { id: 1, isNew: false }],
    ['a boolean as Python writes it', { id: 1, isNew: 'True' }, { id: 1, isNew: true }],
    ['a list as JSON text', { id: 1, states: '["open"]' }, { id: 1, states: ['open'] }],
    ['one value for a list', { id: 1, states: 'open' }, { id: 1, states: ['open'] }],
    ['words with commas', { id: 1, states: 'open, closed' }, { id: 1, states: ['open', 'closed'] }],
    ['one object for a list', { id: 1, items: { id: '2' } }, { id: 1, items: [{ id: 2 }] }],
    ['a list of objects as text', { id: 1, items: '[{"id":2}]' }, { id: 1, items: [{ id: 2 }] }],
    ['objects as text in a list', { id: 1, items: ['{"id":2}'] }, { id: 1, items: [{ id: 2 }] }],
    ['an object as JSON text', { id: 1, custom: '{"po":"7"}' }, { id: 1, custom: { po: '7' } }],
    ['all arguments as JSON text', '{"id":"12","note":"x"}', { id: 12, note: 'x' }],
    ['a whole number for a text', { id: 1, note: 1001 }, { id: 1, note: '1001' }],
    ['an empty optional field', { id: 1, limit: '', at: '', states: '' }, { id: 1 }],
    ['"null" for an optional field', { id: 1, limit: 'null', states: 'null' }, { id: 1 }],
    ['"None" for an optional field', { id: 1, limit: 'None', isNew: 'None' }, { id: 1 }],
    [
      '"undefined" for an optional field',
      { id: 1, limit: 'undefined', at: 'undefined' },
      { id: 1 },
    ],
    [
      '"null" for an optional text',
      { id: 1, note: 'null', items: { id: 2, note: 'null' } },
      { id: 1, items: [{ id: 2 }] },
    ],
    ['"undefined" for an optional text', { id: 1, note: 'undefined' }, { id: 1 }],
    ['a dummy argument', { id: 1, random_string: 'dummy' }, { id: 1 }],
  ])('%s', (_, args, value) => {
    expect(parsed(args)).toEqual({ limit: 20, ...value });
  });

  test.each(['["open"]', '{"a":1}', '12', 'true', 'None', 'Null', 'null and void', '', ' 7 '])(
    'the text %j stays text where a text is accepted',
    (note) => {
      expect(parsed({ id: 1, note, tags: [note] })).toMatchObject({ note, tags: [note] });
    },
  );

  test.each([
    '1.5',
    '0x10',
    '12abc',
    '9007199254740993',
    '9007199254740990.6',
    '[1]',
    '{}',
    'Infinity',
  ])('the text %s is no integer', (id) => {
    expect(parsed({ id })).toEqual([`id is required; you sent the text ${JSON.stringify(id)}.`]);
  });

  test('each problem names the argument, the rule and what was sent', () => {
    const args = { id: 1, note: true, limit: 'ten', items: [7], states: ['lost'], isNew: [] };
    expect(parsed(args)).toEqual([
      'note must be a text; you sent true.',
      'limit must be a number; you sent the text "ten".',
      'items[0] must be an object; you sent 7.',
      'states[0] must be one of open, closed; you sent the text "lost".',
      'isNew must be true or false; you sent a list with 0 entries.',
    ]);
    expect(parsed({ id: 1, items: '[{"id":2.50,"note":1.0}]' })).toEqual([
      'items[0].id must be a number; you sent 2.50.',
      'items[0].note must be a text; you sent 1.0.',
    ]);
    expect(parsed([1])).toEqual(['arguments must be an object; you sent a list with 1 entries.']);
  });

  test('the JSON texts of a call have at most as many entries as a message', () => {
    const half = `[${'{"id":1},'.repeat(3_000)}{"id":1}]`;
    expect(parsed({ id: 1, items: half })).toMatchObject({ id: 1 });
    expect(parsed({ id: 1, items: [half, half, half] })).toEqual(
      expect.arrayContaining([expect.stringContaining('items[2] must be an object')]),
    );
  });

  test('a fraction in a JSON text is not rounded to an id', () => {
    expect(parsed('{"id":9007199254740990.6}')).toEqual([
      'id is required; you sent 9007199254740990.6.',
    ]);
    expect(parsed('{"id":12.0,"custom":{"n":1.10}}')).toMatchObject({ id: 12 });
  });

  test('deep JSON texts are rejected', () => {
    const deep = `${'['.repeat(100_000)}${']'.repeat(100_000)}`;
    expect(parsed({ id: 1, items: deep })).toEqual([
      'items[0] must be an object; you sent a text of 200000 characters.',
    ]);
  });

  test.each(TOOLS)('$name reads each as JSON text', (tool) => {
    const args = tool.sample(SAMPLE_OBJECTS);
    const inputOf = (sent: unknown) => {
      const prepared = tool.prepare(sent);
      return prepared.ok ? prepared.call.input : prepared.problems;
    };
    expect(inputOf(asJsonText(args))).toEqual(inputOf(args));
    expect(inputOf(JSON.stringify(args))).toEqual(inputOf(args));
    expect(inputOf({ ...args, random_string: 'dummy' })).toEqual(inputOf(args));
  });
});

test('no problem of a tool has words of the schema library', () => {
  const VALUES = [undefined, null, '', 'x', 7, 1.5, true, [], [7], {}, [{}], { x: 1 }, ['x']];
  for (const tool of TOOLS) {
    for (const name of Object.keys(tool.input.shape)) {
      for (const value of VALUES) {
        const prepared = tool.prepare({ [name]: value });
        const text = prepared.ok ? '' : prepared.problems.join(' ');
        expect(text).not.toMatch(
          /Invalid input|expected |received (?:undefined|number|string)|\[object|NaN|\.\.$/,
        );
      }
    }
  }
});
